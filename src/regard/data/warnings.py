"""Warnings before training: labels, tables and encodings that look wrong. They never stop a run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from regard.data.config import DataSpec
from regard.data.filters.quality import WRONG_ENCODING
from regard.data.sources.characters import quote, shortened
from regard.data.sources.table_advice import table_warnings
from regard.data.store.prepare import Prepared

ROWS = 100_000  # whose labels are in memory at a time
FEW = 10  # training texts of a label, below which a classifier hardly learns it
MAX_LABELS = 20  # labels that are listed with their counts
MAX_PAIRS = 5  # similar labels that are named
MIN_LETTERS = 4  # of labels that may differ by a spelling error
LABEL = 30  # characters of a label that are shown


def label_counts(data: DataSpec, prepared: Prepared) -> Counter[str]:
    """Return the number of training texts of each label, dev data taken from train among them."""
    stores = [prepared.train, *([prepared.dev] if data.dev is None else [])]
    counts = np.zeros(len(prepared.labels), np.int64)
    for store in stores if prepared.labels else []:
        for first in range(0, len(store), ROWS):
            rows = np.arange(first, min(first + ROWS, len(store)))
            counts += np.bincount(np.concatenate(store.labels(rows)), minlength=len(counts))
    return Counter(dict(zip(prepared.labels, counts.tolist(), strict=True)))


def show_counts(counts: Counter[str]) -> str:
    """Return the labels with their numbers of texts, the most frequent first."""
    most = counts.most_common(MAX_LABELS)
    listed = ", ".join(f"{shortened(label, LABEL)} {count:,}" for label, count in most)
    rest = f" and {len(counts) - MAX_LABELS:,} more" if len(counts) > MAX_LABELS else ""
    return f"{len(counts):,} labels in data.train: {listed}{rest}."


def data_warnings(data: DataSpec, prepared: Prepared, counts: Counter[str]) -> Iterator[str]:
    """Yield one line for each thing in the data that looks wrong."""
    rare = [label for label, count in counts.items() if count == 1]
    for sources in data.splits.values():
        for source in sources:
            yield from table_warnings(source, rare)
    yield from _similar_labels(counts)
    yield from _rare_labels(counts)
    yield from _wrong_encoding(prepared)


def _similar_labels(counts: Mapping[str, int]) -> Iterator[str]:
    pairs = dict.fromkeys((*_same_letters(list(counts)), *_one_letter(list(counts))))
    for first, second in list(pairs)[:MAX_PAIRS]:
        shown = " and ".join(
            f"{quote(label, LABEL)} ({counts[label]:,})"
            for label in sorted((first, second), key=lambda label: -counts[label])
        )
        how = "one letter" if _letters(first) != _letters(second) else "case or spaces"
        yield f"the labels {shown} differ only by {how}; if they are one, correct the file."
    if len(pairs) > MAX_PAIRS:
        yield f"{len(pairs) - MAX_PAIRS:,} more pairs of labels differ as little."


def _letters(label: str) -> str:
    return "".join(label.casefold().split())


def _same_letters(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of labels that differ by case and spaces alone."""
    by_letters: dict[str, list[str]] = {}
    for label in labels:
        by_letters.setdefault(_letters(label), []).append(label)
    for same in by_letters.values():
        yield from ((same[0], other) for other in same[1:])


def _one_letter(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of words with a letter that is missing, wrong or in another position.

    Such words are the same after one letter is removed from each. Labels with digits (class1,
    class2) or with different last letters (group a, group b) are different on purpose.
    """
    without_letter: dict[str, list[str]] = {}
    for label in labels:
        word = _letters(label)
        if len(word) >= MIN_LETTERS and word.isalpha():
            for shorter in {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}:
                without_letter.setdefault(shorter, []).append(label)
    for similar in without_letter.values():
        for first, second in combinations(similar[: MAX_PAIRS + 1], 2):
            words = _letters(first), _letters(second)
            if words[0] != words[1] and words[0][:-1] != words[1][:-1]:
                yield first, second


def _rare_labels(counts: Counter[str]) -> Iterator[str]:
    rare = sorted((count, label) for label, count in counts.items() if count < FEW)
    if rare:
        listed = ", ".join(f"{quote(label, LABEL)} ({count})" for count, label in rare[:MAX_PAIRS])
        more = f" and {len(rare) - MAX_PAIRS:,} more" if len(rare) > MAX_PAIRS else ""
        yield f"labels with fewer than {FEW} training texts: {listed}{more}."


def _wrong_encoding(prepared: Prepared) -> Iterator[str]:
    for split, source, tally in prepared.ledger.tallies():
        if cause := tally.dropped.get(WRONG_ENCODING):
            yield (
                f"{source}: {cause.count:,} lines for {split} are dropped for characters of "
                f"Windows-1252 that were decoded as Latin-1; data.filters.fix_encoding: true "
                f"repairs them."
            )
