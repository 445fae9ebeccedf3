"""The parts of the data, written: the second reading, with a tokeniser at hand."""

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

from regard.data.config import DataSpec, Dropped, name
from regard.data.filters.decontaminate import Decontaminator
from regard.data.filters.deduplicate import deduplicate, hashes
from regard.data.ledger import Ledger
from regard.data.records import LengthLimits, Place, Rejected
from regard.data.store.mmap import MappedFile
from regard.data.store.scan import scan_corpus, with_progress
from regard.data.store.store import SIDES, SplitStats
from regard.data.store.writer import RowEncoder, StoreWriter
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.cached_encoder import encoder
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.errors import DataError

SHARE = 20  # of so many records, at most one is held out

Progress = Callable[[str, int], None]  # what is being done, and to how many records more


def build_splits(
    folder: Path,
    data: DataSpec,
    tokenizer: TokenizerSpec,
    limit: int,
    special_tokens: Sequence[str],
    progress: Progress,
    length_limits: LengthLimits,
) -> dict[str, Any]:
    """Fill a folder; what is to be known of it without opening its parts is given back."""
    ledger = Ledger()
    without = Decontaminator(data, ledger)
    found = scan_corpus(data, tokenizer, special_tokens, without, partial(progress, "Reading"))
    labels = {label: number for number, label in enumerate(found.labels)}
    encode_all = encoder(tokenizer, found.tokenizer)
    form = RowEncoder(
        data.record_type,
        found.tokenizer,
        encode_all,
        limit,
        labels,
        data.num_texts,
        data.trees,
        length_limits,
    )
    aside = _held_out(data, found.records)
    sources = {"dev": data.train, **data.splits}
    scribes = {
        part: StoreWriter(
            folder / f"{part}.arrow",
            form,
            ledger,
            [name(source) for source in each],
            read_for=part if part in data.splits else "train",
        )
        for part, each in sources.items()
    }
    _write(data, without, scribes, aside, ledger, partial(progress, "Cutting into pieces"))
    _check_some_left(ledger)
    _sift(folder, data, scribes, ledger)
    _check_some_left(ledger)
    train = folder / "train.arrow"
    for file, text in {
        "tokenizer.json": found.tokenizer.to_json(),
        "languages.json": _guess(train, data, len(found.tokenizer)).to_json(),
        "ledger.json": ledger.to_json(),
    }.items():
        (folder / file).write_text(text, "utf-8")
    facts = {
        part: SplitStats.of(folder / f"{part}.arrow", scribe.files, len(sources[part]))
        for part, scribe in scribes.items()
    }
    return {
        "parts": {part: asdict(each) for part, each in facts.items()},
        "labels": found.labels,
        "unknown": found.tokenizer.unknown_share(ids for _, _, ids in _ids(train)),
    }


def _held_out(data: DataSpec, records: int) -> Iterator[bool]:
    """Which records of the training text go to dev, where none is given: evenly spread."""
    if data.dev is not None:
        return repeat(False)
    count = min(data.dev_size, records // SHARE)
    if count == 0:
        raise DataError(
            f"data.train: {records:,} records are too few to hold one in {SHARE} out: give "
            f"data.dev."
        )
    return ((n + 1) * count // records > n * count // records for n in range(records))


def _write(
    data: DataSpec,
    without: Decontaminator,
    scribes: dict[str, StoreWriter],
    aside: Iterator[bool],
    ledger: Ledger,
    progress: Callable[[int], None],
) -> None:
    with ExitStack() as stack:
        stack.enter_context(_without_collector())
        for scribe in scribes.values():
            stack.enter_context(scribe)
        for part, sources in data.splits.items():
            for number, source in enumerate(sources):
                ledger.keep(part, name(source), 0)  # one that gives nothing is listed as well
                records = data.read(source)
                if part == "train":
                    records = without.kept(records)
                for record in with_progress(records, progress):
                    if isinstance(record, Dropped):
                        scribes[part].refuse(number, record)
                    elif part == "train" and next(aside, False):
                        scribes["dev"].add(number, record)
                    else:
                        scribes[part].add(number, record)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Records are in no cycles, and to look for some among them takes two fifths of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check_some_left(ledger: Ledger) -> None:
    """A part with nothing in it is no part."""
    ledger.enforce(max_dropped=1)
    if not any(part == "dev" for part, _, _ in ledger.tallies()):
        raise DataError("data.train: no record that was held out can be used; give data.dev.")


def _sift(folder: Path, data: DataSpec, scribes: dict[str, StoreWriter], ledger: Ledger) -> None:
    """Running text may say a thing twice; nothing may be both trained on and held out."""
    names, files = [name(source) for source in data.train], list(scribes["train"].files)

    def tell(why: str, rows: pa.RecordBatch) -> None:
        source = names[rows.column("source")[0].as_py()]
        columns = rows.select(["file", "line"]).to_pylist()
        lines = rows.column("lines").to_pylist() if "lines" in rows.schema.names else repeat(1)
        for at, count in zip(columns, lines, strict=False):
            place = Place(files[at["file"]], at["line"])
            ledger.move("train", source, Rejected(place, why), count)

    held = [hashes(folder / f"{part}.arrow") for part in scribes if part != "train"]
    none = np.zeros(0, np.uint64)
    deduplicate(
        folder / "train.arrow",
        np.sort(np.concatenate(held)) if data.filters.eval_overlap == "drop" else none,
        data.filters.duplicates == "drop" and data.record_type != "text",
        tell,
    )


def _ids(path: Path) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
    """The ids of a part by record batch: source, side, ids."""
    for batch in MappedFile(path):
        source = batch.column("source")[0].as_py()
        for side, column in enumerate(s for s in SIDES if s in batch.schema.names):
            yield source, side, batch.column(column).values.to_numpy()


def _guess(path: Path, data: DataSpec, vocabulary: int) -> LanguageIdentifier:
    """How often each piece stands in each language."""
    counts = {language: np.zeros(vocabulary, np.int64) for language in data.languages}
    for source, side, ids in _ids(path):
        if tongues := data.train[source].language_pair:
            counts[tongues[side]] += np.bincount(ids, minlength=vocabulary)
    return LanguageIdentifier(
        {
            language: {piece: int(count[piece]) for piece in np.flatnonzero(count).tolist()}
            for language, count in counts.items()
        }
    )
