"""Sources of training, dev and test data in the files that a user names, for each task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.recognition.formats import FileFormat, recognize_format
from regard.data.recognition.labeled import recognize_by_file, recognize_labeled
from regard.data.recognition.pairs import (
    recognize_parallel,
    recognize_summaries,
    recognize_translation,
)
from regard.data.recognition.recognized import RecognizedSource
from regard.data.recognition.tables import Advance, Table, read_table
from regard.data.recognition.text import recognize_text, refuse_table
from regard.data.sources.paths import files_at, is_folder
from regard.errors import DataError

Recognize = Callable[[Sequence[Path], Advance], RecognizedSource]


@dataclass(frozen=True)
class RecognizedFiles:
    """Files of a user, recognized for a task."""

    task: str
    train: RecognizedSource
    splits: Mapping[str, Mapping[str, Any]]  # settings of the dev and test data


def recognize_files(
    task: str,
    files: Sequence[Path],
    dev: Sequence[Path] = (),
    test: Sequence[Path] = (),
    advance: Advance = lambda _: None,
) -> RecognizedFiles:
    """Recognize the sources in files; raises DataError for files that the task cannot use."""
    train = _RECOGNIZE[task](files, advance)
    others = {"dev": dev, "test": test}
    splits = {split: _settings_like(train, paths) for split, paths in others.items() if paths}
    return RecognizedFiles(task, train, splits)


def _translation_source(paths: Sequence[Path], advance: Advance) -> RecognizedSource:
    return _pairs(paths, recognize_translation, advance)


def _summary_source(paths: Sequence[Path], advance: Advance) -> RecognizedSource:
    return _pairs(paths, recognize_summaries, advance)


def _labeled_source(paths: Sequence[Path], advance: Advance) -> RecognizedSource:
    formats = [_format(path) for path in paths]
    if len(paths) > 1:
        _require_plain(paths, formats, "for each label")
        return recognize_by_file(paths, _one_encoding(paths, formats), advance)
    if formats[0].name == "text":
        raise DataError(
            f"{paths[0]}: is plain text and has no labels; give a table with a column of them, or "
            f"a file for each label."
        )
    return recognize_labeled(read_table(paths[0], formats[0], advance))


def _running_text(paths: Sequence[Path], advance: Advance) -> RecognizedSource:
    return _text_source(paths, advance, sentences=False)


def _sentences(paths: Sequence[Path], advance: Advance) -> RecognizedSource:
    return _text_source(paths, advance, sentences=True)


def _text_source(paths: Sequence[Path], advance: Advance, *, sentences: bool) -> RecognizedSource:
    files = [file for path in paths for file in files_at(path, "*")]
    formats = [recognize_format(file) for file in files]
    for file, file_format in zip(files, formats, strict=True):
        refuse_table(file, file_format)
    encoding = _one_encoding(files, formats)
    return recognize_text(paths, files, encoding, sentences=sentences, advance=advance)


_RECOGNIZE: Mapping[str, Recognize] = {
    "translation": _translation_source,
    "summarization": _summary_source,
    "classification": _labeled_source,
    "language-model": _running_text,
    "masked-lm": _sentences,
    "span-corruption": _sentences,
}


def _settings_like(train: RecognizedSource, paths: Sequence[Path]) -> dict[str, Any]:
    """Return the settings that read other files as the training data, for dev or test data.

    Raises DataError if they are of another format, or do not have the same columns.
    """
    settings = dict(train.settings)
    needed = {"files": 2, "by-file": len(settings.get("classes", ()))}.get(settings["kind"], 1)
    if len(paths) != needed and settings["kind"] != "text":
        names = ", ".join(map(str, paths))
        raise DataError(
            f"{names}: the training data are {needed} {'file' if needed == 1 else 'files'}, and "
            f"here there are {len(paths)}; give one for each."
        )
    formats = [_format(path) for path in paths]
    settings.pop("encoding", None)
    if encoding := _one_encoding(paths, formats):
        settings["encoding"] = encoding
    match settings["kind"]:
        case "files":
            return settings | {"source": paths[0], "target": paths[1]}
        case "by-file":
            return settings | {"classes": dict(zip(settings["classes"], paths, strict=True))}
        case "text":
            return settings | {"path": paths[0] if len(paths) == 1 else list(paths)}
    table = read_table(paths[0], formats[0])
    _check_columns(table, settings)
    settings["path"] = table.path
    settings.pop("header", None)
    return settings | ({"header": True} if table.header else {})


def _pairs(
    paths: Sequence[Path], recognize: Callable[[Table], RecognizedSource], advance: Advance
) -> RecognizedSource:
    formats = [_format(path) for path in paths]
    if len(paths) == 2:
        _require_plain(paths, formats, "for each language")
        return recognize_parallel(paths, _one_encoding(paths, formats), advance)
    if len(paths) > 2:
        raise DataError(
            f"{', '.join(map(str, paths))}: pairs are in one table or in two parallel files, and "
            f"these are {len(paths)}; add further sources to the recipe by hand."
        )
    if formats[0].name == "text":
        raise DataError(
            f"{paths[0]}: is plain text in one column where two are needed; give a table, or a "
            f"second file with the same number of lines."
        )
    return recognize(read_table(paths[0], formats[0], advance))


def _format(path: Path) -> FileFormat:
    if is_folder(path):
        raise DataError(f"{path}: is a folder; give a file.")
    return recognize_format(path)


def _require_plain(paths: Sequence[Path], formats: Sequence[FileFormat], why: str) -> None:
    for path, file_format in zip(paths, formats, strict=True):
        if file_format.name != "text":
            raise DataError(
                f"{path}: is {file_format}, and several files are plain text, one {why}; give one "
                f"table (dev and test data with --dev and --test)."
            )


def _one_encoding(paths: Sequence[Path], formats: Sequence[FileFormat]) -> str | None:
    encodings = {file_format.encoding for file_format in formats}
    if len(encodings) > 1:
        names = ", ".join(map(str, paths[:5]))
        raise DataError(f"{names}: have different encodings; convert them to UTF-8 first.")
    return next(iter(encodings))


def _check_columns(table: Table, settings: dict[str, Any]) -> None:
    """Raise DataError unless the table has the format and the columns of the settings."""
    kind = settings["kind"].removeprefix("labeled-")
    kind = "tsv" if kind == "labeled" else kind
    if table.format.name != kind or settings.get("separator", ",") != (
        table.format.separator if kind == "csv" else ","
    ):
        raise DataError(f"{table.path}: is {table.format}, and the training data are not.")
    known = {*range(len(table.columns)), *(column.key for column in table.columns)}
    for key in settings.get("columns", settings.get("keys", ())):
        if key not in known:
            raise DataError(
                f"{table.path}: there is no column {key!r} as in the training data; its columns "
                f"are {table.show()}."
            )
