"""The first pass over the training data: train the tokenizer, count records, collect labels.

Only counts are kept in memory. Where there is more text than a tokenizer needs, it is trained on a
sample, which is spread evenly by the hash of each record.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from regard.data.config import DataSpec, Dropped, source_name
from regard.data.filters.decontaminate import Decontaminator
from regard.data.filters.hashes import record_hash
from regard.data.records import Record
from regard.data.sources.base import SourceSpec
from regard.data.sources.characters import quote
from regard.data.sources.table_advice import explain_columns
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError

SAMPLE = 200 * 10**6  # bytes of text for a tokenizer; more does not improve it
MAX_LABELS = 10_000  # with more, the column is not one of labels
MIN_TEXTS = 20  # from which on more than one label for two texts are an error
TICK = 1000  # records between two reports of progress


@dataclass(frozen=True)
class CorpusScan:
    """Result of the first pass."""

    tokenizer: Tokenizer
    records: int
    labels: tuple[str, ...]


def scan_corpus(
    data: DataSpec,
    tokenizer: TokenizerSpec,
    special_tokens: Sequence[str],
    decontaminator: Decontaminator,
    progress: Callable[[int], None],
) -> CorpusScan:
    """Read the training data as far as tokenizer, record count or labels need it."""
    records, labels = 0, set[str]()

    def texts() -> Iterator[str]:
        nonlocal records
        fraction = _sample_fraction(data)
        for source in data.train:
            for record in with_progress(decontaminator.filter(data.read(source)), progress):
                if isinstance(record, Dropped):
                    continue
                records += 1
                labels.update(record.labels or ())
                if len(labels) > MAX_LABELS:
                    _check_labels(labels, records, data, source)
                if fraction == 1 or int.from_bytes(record_hash(record)) < fraction * 2**64:
                    yield from record.texts

    sample = texts()
    names = (*data.languages, *special_tokens)
    trained = tokenizer.train(sample if tokenizer.needs_text else (), names)
    if data.dev is None or data.record_type == "labeled":
        for _ in sample:  # count the records that the tokenizer did not need
            pass
    if labels:
        _check_labels(labels, records, data, data.train[0])
    return CorpusScan(trained, records, tuple(sorted(labels)))


def _sample_fraction(data: DataSpec) -> float:
    """Return the fraction of records for the tokenizer; of gzip files it is more text."""
    size = sum(file.stat().st_size for source in data.train for file in source.files())
    return min(1.0, SAMPLE / max(size, 1))


def _check_labels(labels: set[str], records: int, data: DataSpec, source: SourceSpec) -> None:
    """Raise DataError if there are too many labels: texts, or ids, are read as labels."""
    several = data.labels.several or records < MIN_TEXTS
    if len(labels) > MAX_LABELS or (len(labels) > records / 2 and not several):
        explanation = explain_columns(source)
        raise DataError(
            f"{source_name(source)}: {records:,} texts have {len(labels):,} different labels, such "
            f"as {quote(max(labels, key=len))}: is this the column of the labels?"
            f"{' ' + explanation[:1].upper() + explanation[1:] + '.' if explanation else ''}"
        )


def with_progress(
    records: Iterable[Record | Dropped], progress: Callable[[int], None]
) -> Iterator[Record | Dropped]:
    """Yield the records and call `progress` with the number of records since its last call."""
    number = 0
    for number, record in enumerate(records, start=1):
        yield record
        if number % TICK == 0:
            progress(TICK)
    progress(number % TICK)
