"""Build the splits of a token store: the second pass over the data, with the tokenizer trained."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.advice import advisor
from regard.data.config import DataSpec, Dropped, source_name
from regard.data.filters.decontaminate import Decontaminator
from regard.data.filters.deduplicate import deduplicate
from regard.data.filters.eval_overlap import EvalTexts
from regard.data.ledger import Advise, Ledger, LostDataError
from regard.data.records import LengthLimits, Location, Rejected
from regard.data.store.mmap import MappedFile
from regard.data.store.scan import scan_corpus, with_progress
from regard.data.store.store import TEXTS, SplitStats
from regard.data.store.writer import RowEncoder, StoreWriter
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.cached_encoder import encoder
from regard.data.tokenizers.language_id import LanguageIdentifier

MAX_DEV_FRACTION = 20  # at most one of this many training records becomes dev data

Progress = Callable[[str, int], None]  # (activity, number of further records)


def build_splits(
    folder: Path,
    data: DataSpec,
    tokenizer: TokenizerSpec,
    limit: int,
    special_tokens: Sequence[str],
    progress: Progress,
    length_limits: LengthLimits,
) -> dict[str, Any]:
    """Write the store into a folder and return its metadata for fingerprint.json."""
    ledger = Ledger()
    decontaminator = Decontaminator(data, ledger)
    scan = scan_corpus(
        data, tokenizer, special_tokens, decontaminator, partial(progress, "Reading")
    )
    row_encoder = RowEncoder(
        data.record_type,
        scan.tokenizer,
        encoder(tokenizer, scan.tokenizer),
        limit,
        {label: number for number, label in enumerate(scan.labels)},
        data.num_texts,
        data.trees,
        length_limits,
    )
    advise = advisor(data, limit)
    to_dev = _to_dev(data, scan.records, decontaminator, ledger, advise)
    sources = {"dev": data.train, **data.splits}
    writers = {
        split: StoreWriter(
            folder / f"{split}.arrow",
            row_encoder,
            ledger,
            [source_name(source) for source in sources[split]],
            read_for=split if split in data.splits else "train",
            language_pairs=[source.language_pair for source in sources[split]],
        )
        for split in sources
    }
    _write(data, decontaminator, writers, to_dev, ledger, partial(progress, "Tokenizing"))
    _check_not_empty(ledger, advise)
    _deduplicate(folder, data, writers, ledger)
    _check_not_empty(ledger, advise)
    train = folder / "train.arrow"
    for file, text in {
        "tokenizer.json": scan.tokenizer.to_json(),
        "languages.json": _count_languages(train, data, len(scan.tokenizer)).to_json(),
        "ledger.json": ledger.to_json(),
    }.items():
        (folder / file).write_text(text, "utf-8")
    stats = {
        split: SplitStats.measure(folder / f"{split}.arrow", writer.files, len(sources[split]))
        for split, writer in writers.items()
    }
    return {
        "splits": {split: asdict(split_stats) for split, split_stats in stats.items()},
        "labels": scan.labels,
        "unknown_rate": scan.tokenizer.unknown_rate(ids for _, _, ids in _ids(train)),
    }


def _to_dev(
    data: DataSpec, records: int, decontaminator: Decontaminator, ledger: Ledger, advise: Advise
) -> Iterator[bool]:
    """Yield True for training records that become dev data: none with data.dev, else evenly."""
    if data.dev is not None:
        return repeat(False)
    count = min(data.dev_size, records // MAX_DEV_FRACTION)
    if count == 0:
        _count_training_lines(data, decontaminator, ledger)
        ledger.enforce(data.filters.max_dropped, advise)
        raise LostDataError(
            f"data.train: {records:,} records are too few to take one in {MAX_DEV_FRACTION} as "
            f"dev data: give data.dev.",
            ledger,
        )
    return ((n + 1) * count // records > n * count // records for n in range(records))


def _count_training_lines(data: DataSpec, decontaminator: Decontaminator, ledger: Ledger) -> None:
    """Count the lines of the training data in the ledger, for an error before they are written."""
    for source in data.train:
        name = source_name(source)
        for record in decontaminator.filter(data.read(source)):
            if isinstance(record, Dropped):
                ledger.drop("train", name, *record)
            else:
                ledger.keep("train", name, record.lines)


def _write(
    data: DataSpec,
    decontaminator: Decontaminator,
    writers: dict[str, StoreWriter],
    to_dev: Iterator[bool],
    ledger: Ledger,
    progress: Callable[[int], None],
) -> None:
    with ExitStack() as stack:
        stack.enter_context(_garbage_collection_disabled())
        for writer in writers.values():
            stack.enter_context(writer)
        for split, sources in data.splits.items():
            for number, source in enumerate(sources):
                ledger.keep(split, source_name(source), 0)  # also list a source without lines
                records = data.read(source)
                if split == "train":
                    records = decontaminator.filter(records)
                for record in with_progress(records, progress):
                    if isinstance(record, Dropped):
                        writers[split].drop(number, record)
                    elif split == "train" and next(to_dev, False):
                        writers["dev"].add(number, record)
                    else:
                        writers[split].add(number, record)


@contextmanager
def _garbage_collection_disabled() -> Iterator[None]:
    """Disable the cyclic collector: records have no cycles, and it takes two fifths of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_not_empty(ledger: Ledger, advise: Advise) -> None:
    """Raise DataError if a split has no record."""
    ledger.enforce(max_dropped=1, advise=advise)
    if not any(split == "dev" for split, _, _ in ledger.tallies()):
        raise LostDataError(
            "data.train: none of the records taken as dev data can be used; give data.dev.",
            ledger,
        )


def _deduplicate(
    folder: Path, data: DataSpec, writers: dict[str, StoreWriter], ledger: Ledger
) -> None:
    """Remove duplicates (not in running text) and training rows that are in dev or test."""
    names = [source_name(source) for source in data.train]
    files = list(writers["train"].files)

    def report(reason: str, rows: pa.RecordBatch, are_dropped: bool) -> None:
        count_lines = ledger.move if are_dropped else ledger.share
        source = names[rows.column("source")[0].as_py()]
        columns = rows.select(["file", "line"]).to_pylist()
        lines = rows.column("lines").to_pylist() if "lines" in rows.schema.names else repeat(1)
        for row, count in zip(columns, lines, strict=False):
            location = Location(files[row["file"]], row["line"])
            count_lines("train", source, Rejected(location, reason), count)

    splits = [
        (folder / f"{split}.arrow", [source.language_pair for source in sources])
        for split, sources in {"dev": data.train, **data.splits}.items()
        if split != "train"
    ]
    drops_duplicates = data.filters.duplicates == "drop" and data.record_type != "text"
    deduplicate(
        folder / "train.arrow",
        EvalTexts(splits, data.record_type, data.filters),
        data.source_directions if drops_duplicates else None,
        report,
    )


def _ids(path: Path) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
    """Yield source, number of the text, and ids of each record batch of a split."""
    for batch in MappedFile(path):
        source = batch.column("source")[0].as_py()
        for side, column in enumerate(text for text in TEXTS if text in batch.schema.names):
            yield source, side, batch.column(column).values.to_numpy()


def _count_languages(path: Path, data: DataSpec, vocabulary: int) -> LanguageIdentifier:
    """Count how often each token occurs in each language."""
    counts = {language: np.zeros(vocabulary, np.int64) for language in data.languages}
    for source, side, ids in _ids(path):
        if language_pair := data.train[source].language_pair:
            counts[language_pair[side]] += np.bincount(ids, minlength=vocabulary)
    return LanguageIdentifier(
        {
            language: {token: int(count[token]) for token in np.flatnonzero(count).tolist()}
            for language, count in counts.items()
        }
    )
