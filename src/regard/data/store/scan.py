"""The first reading of the training text: a tokeniser of it, how many records, and which labels.

Nothing is kept but counts. Of more text than a tokeniser needs it is given a sample, spread evenly
by the hash of each record.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from regard.data.config import DataSpec, Dropped
from regard.data.filters.decontaminate import Decontaminator
from regard.data.records import Record
from regard.data.store.writer import record_hash
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError

SAMPLE = 200 * 10**6  # bytes of text: more would tell a tokeniser nothing new
MANY = 10_000  # labels; what has more of them is not labelled
TICK = 1000  # records

Read = Record | Dropped


@dataclass(frozen=True)
class CorpusScan:
    """What the first reading found."""

    tokenizer: Tokenizer
    records: int
    labels: tuple[str, ...]


def scan_corpus(
    data: DataSpec,
    tokenizer: TokenizerSpec,
    special_tokens: Sequence[str],
    without: Decontaminator,
    progress: Callable[[int], None],
) -> CorpusScan:
    """Read the training text, if anything is to be learned from it."""
    records, labels = 0, set[str]()

    def texts() -> Iterator[str]:
        nonlocal records
        share = _share(data)
        for source in data.train:
            for record in with_progress(without.kept(data.read(source)), progress):
                if isinstance(record, Dropped):
                    continue
                records += 1
                labels.update(record.labels or ())
                _check_few(labels, record)
                if share == 1 or int.from_bytes(record_hash(record)) < share * 2**64:
                    yield from record.texts

    reading = texts()
    made = tokenizer.train(
        reading if tokenizer.needs_text else (), (*data.languages, *special_tokens)
    )
    if data.dev is None or data.record_type == "labeled":
        for _ in reading:  # whatever the tokeniser had no need of is counted all the same
            pass
    return CorpusScan(made, records, tuple(sorted(labels)))


def _share(data: DataSpec) -> float:
    """The share of the records that a tokeniser is given; of packed files it will be more text."""
    size = sum(file.stat().st_size for source in data.train for file in source.files())
    return min(1.0, SAMPLE / max(size, 1))


def _check_few(labels: set[str], record: Record) -> None:
    if len(labels) > MANY:
        raise DataError(
            f"{record.place}: {(record.labels or ('',))[-1]!r} is label number {len(labels):,}, "
            f"which is too many to tell apart; is this the column of the labels?"
        )


def with_progress(records: Iterable[Read], progress: Callable[[int], None]) -> Iterator[Read]:
    """The same records; now and then `progress` hears how many more went by."""
    number = 0
    for number, record in enumerate(records, start=1):
        yield record
        if number % TICK == 0:
            progress(TICK)
    progress(number % TICK)
