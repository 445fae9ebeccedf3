"""Read a file as the training data of a run were read: its kind, columns, header and encoding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import override, plain, validate
from regard.data.filters.quality import fixed_encoding
from regard.data.records import Line, Record, Rejected
from regard.data.sources.base import SourceSpec
from regard.errors import ConfigError, DataError
from regard.predictors.base import BasePredictor

SHOWN = ("kind", "columns", "keys", "header", "separator", "encoding")  # settings in an error
PAIRS: Mapping[str, Any] = {"kind": "tsv", "languages": ["source", "target"]}


def source_like_training(
    predictor: BasePredictor[Any],
    path: Path,
    default: Mapping[str, Any],
    changes: Sequence[str] = (),
) -> SourceSpec:
    """Return the source that reads a file as in training.

    Args:
        predictor: Its `file_format` has the settings of the training data.
        path: The file.
        default: Settings for a run without them, or one whose kind does not read a single file.
        changes: Overrides, each key=value; with `kind=…` they are the whole source.

    Raises:
        ConfigError: A change is not valid.
    """
    trained = predictor.file_format or {}
    if trained.get("kind") in (None, "files", "by-file"):
        encoding = {"encoding": trained["encoding"]} if trained.get("encoding") else {}
        trained = {**default, **encoding}
    if any(change.startswith("kind=") for change in changes):
        trained = {key: value for key, value in default.items() if key == "languages"}
    content = override(trained, changes)
    if "path" in content:
        raise ConfigError("source: path is the file that is given; leave it out.")
    return validate(SourceSpec, {**content, "path": path}, "source")


def pair_lines(
    predictor: BasePredictor[Any],
    path: Path,
    target: Path | None = None,
    *,
    changes: Sequence[str] = (),
    to: str | None = None,
) -> Iterator[Record]:
    """Yield the pairs of a file as in training, or of two parallel files.

    Args:
        predictor: Its `file_format` has the settings of the training data.
        path: The file of pairs, or of sources.
        target: The file of targets.
        changes: Overrides of how a file of pairs is read, each key=value.
        to: Target language: the sources are in the other column where the first one has it.

    Raises:
        ConfigError: A change is not valid.
        DataError: A line cannot be read.
    """
    if target is None:
        source = source_like_training(predictor, path, PAIRS, changes)
    else:
        encoding = (predictor.file_format or {}).get("encoding")
        settings = override({"encoding": encoding, "languages": PAIRS["languages"]}, changes)
        files = {"kind": "files", "source": path, "target": target}
        source = validate(SourceSpec, {**settings, **files}, "source")
    if source.record_type != "pair":
        raise ConfigError(f"source: kind {source.kind()} does not read pairs.")
    ordered = any(change.startswith(("kind=", "columns=", "keys=")) for change in changes)
    swap = to is not None and not ordered and source.language_pair[0] == to
    for record in require_readable(predictor, source.records(), source):
        yield replace(record, texts=record.texts[::-1]) if swap else record


def require_readable(
    predictor: BasePredictor[Any], lines: Iterator[Line], source: SourceSpec
) -> Iterator[Record]:
    """Yield the records; an error at the first rejected line says how the file is read."""
    for line in lines:
        if isinstance(line, Rejected):
            settings = plain(source)
            shown = ", ".join(f"{key}={settings[key]}" for key in SHOWN if settings.get(key))
            raise DataError(
                f"{line.location}: {line.reason} ({line.detail}); fix the line, or correct how the "
                f"file is read with --source (now {shown})."
            )
        yield repaired(predictor, line)


def repaired(predictor: BasePredictor[Any], record: Record) -> Record:
    """Return the record with its characters repaired if those of the training data were."""
    return fixed_encoding(record) if predictor.fix_encoding else record
