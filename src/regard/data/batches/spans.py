"""Span corruption (Raffel et al. 2020, section 3.1.4): spans are cut out, and are to be written.

    Thank you for inviting me to your party last week
    source   Thank you <extra_0> me to your party <extra_1> week </s>
    target   <s> <extra_0> for inviting <extra_1> last <extra_2> </s>

As many pieces as in T5, in as many spans; but a text may begin with a span, and need not end with
one, for people leave blanks anywhere.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.sampling.counter_rng import Ints, uniform
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries

SPANS, GAPS = range(2)  # what is drawn: no two alike by chance

Ids = npt.NDArray[np.int64]


class CorruptedText(NamedTuple):
    source: Ids
    target: Ids


class Spans:
    """How much is cut out, and in how many spans."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        share: float = 0.15,
        mean: float = 3.0,
        sentinels: int = 100,
        whole_words: bool = False,
    ) -> None:
        """`share` of the pieces of a text is cut out, in spans `mean` long on average; of words
        instead of pieces, where these are to be whole."""
        self._share, self._mean = share, mean
        self._borders = WordBoundaries(tokenizer) if whole_words else None
        self._special = np.array(sorted(tokenizer.special))
        self._start, self._end = np.array([tokenizer.start]), np.array([tokenizer.end])
        self._sentinels = np.array([tokenizer.special_id(sentinel(n)) for n in range(sentinels)])

    def most(self, length: int) -> int:
        """How many spans a text of so many pieces has at most."""
        return self._count(length)[1]

    def __call__(self, ids: Ids, longest: int, key: tuple[int, ...], number: int) -> CorruptedText:
        """Of the text with that number; what is to be written is `longest` at most."""
        spans = [
            (begin, end)
            for begin, end in self._spans(ids, key, number)
            if not np.isin(ids[begin:end], self._special).any()
        ]
        del spans[len(self._sentinels) - 1 :]
        while sum(end - begin + 1 for begin, end in spans) + 3 > longest:
            spans.pop()
        marks = np.split(self._sentinels[: len(spans) + 1], len(spans) + 1)
        source, target, at = [], [self._start], 0
        for (begin, end), mark in zip(spans, marks, strict=False):
            source += [ids[at:begin], mark]
            target += [mark, ids[begin:end]]
            at = end
        source += [ids[at:], self._end]
        target += [marks[-1], self._end]
        return CorruptedText(np.concatenate(source), np.concatenate(target))

    def _spans(self, ids: Ids, key: tuple[int, ...], number: int) -> list[tuple[int, int]]:
        """Where each begins and ends: gaps and spans in turn, the outer gaps perhaps empty."""
        starts = np.arange(len(ids)) if self._borders is None else self._borders(ids).nonzero()[0]
        units = len(starts)
        cut_out, count = self._count(units)
        spans = _parts(cut_out, count, (*key, SPANS), number)
        gaps = _parts(units - cut_out + 2, count + 1, (*key, GAPS), number)
        gaps[[0, -1]] -= 1
        begins = np.cumsum(gaps[:-1]) + np.cumsum(spans) - spans
        borders = np.append(starts, len(ids))
        return list(zip(borders[begins].tolist(), borders[begins + spans].tolist(), strict=True))

    def _count(self, units: int) -> tuple[int, int]:
        """Of so many pieces, or words: how many are cut out, and in how many spans."""
        cut_out = min(max(round(self._share * units), 1), max(units - 1, 1))
        spans = min(max(round(cut_out / self._mean), 1), units - cut_out + 1)
        return cut_out, spans


def sentinel(number: int) -> str:
    """The mark that stands for a span: <extra_0> is the first one's piece."""
    return f"extra_{number}"


def _parts(total: int, count: int, key: tuple[int, ...], number: int) -> Ints:
    """So many numbers, each at least 1, that add up to the total; all ways are equally likely."""
    drawn = uniform(key, np.full(total - 1, number), np.arange(total - 1))
    cuts = np.sort(np.argsort(drawn)[: count - 1]) + 1
    return np.diff(cuts, prepend=0, append=total)
