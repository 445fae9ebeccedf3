"""Span corruption (Raffel et al. 2020, section 3.1.4): spans are cut out and predicted.

    Thank you for inviting me to your party last week
    source   Thank you <extra_0> me to your party <extra_1> week </s>
    target   <s> <extra_0> for inviting <extra_1> last <extra_2> </s>

The number of tokens and spans is that of T5; but here a text may begin with a span and need not
end with one, because users leave blanks anywhere.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.sampling.counter_rng import Ints, uniform
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries

SPANS, GAPS = range(2)  # streams of random numbers, independent of each other

Ids = npt.NDArray[np.int64]


class CorruptedText(NamedTuple):
    """A text with a sentinel for each span, and the spans behind their sentinels."""

    source: Ids
    target: Ids


class SpanCorruptor:
    """Cut random spans out of texts."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        corruption_rate: float = 0.15,
        mean_span_length: float = 3.0,
        sentinels: int = 100,
        whole_words: bool = False,
    ) -> None:
        """Set the fraction of tokens to cut out and the mean length of a span.

        With `whole_words`, both count words instead of tokens, and spans end at word boundaries.
        """
        self._corruption_rate, self._mean_span_length = corruption_rate, mean_span_length
        self._word_boundaries = WordBoundaries(tokenizer) if whole_words else None
        self._special = np.array(sorted(tokenizer.special_ids))
        self._start, self._end = np.array([tokenizer.start]), np.array([tokenizer.end])
        self._sentinels = np.array([tokenizer.special_id(sentinel(n)) for n in range(sentinels)])

    def max_spans(self, length: int) -> int:
        """Return the number of spans of a text of `length` tokens, at most."""
        return self._counts(length)[1]

    def __call__(
        self, ids: Ids, max_length: int, key: tuple[int, ...], number: int
    ) -> CorruptedText:
        """Corrupt a text; `key` and its number fix the spans, the target has at most `max_length`.

        Spans with a special token are left in the text, as are the last ones if the target would
        be too long or there are too few sentinels.
        """
        spans = [
            (begin, end)
            for begin, end in self._draw_spans(ids, key, number)
            if not np.isin(ids[begin:end], self._special).any()
        ]
        del spans[len(self._sentinels) - 1 :]
        while sum(end - begin + 1 for begin, end in spans) + 3 > max_length:
            spans.pop()
        sentinels = np.split(self._sentinels[: len(spans) + 1], len(spans) + 1)
        source, target, at = [], [self._start], 0
        for (begin, end), mark in zip(spans, sentinels, strict=False):
            source += [ids[at:begin], mark]
            target += [mark, ids[begin:end]]
            at = end
        source += [ids[at:], self._end]
        target += [sentinels[-1], self._end]
        return CorruptedText(np.concatenate(source), np.concatenate(target))

    def _draw_spans(self, ids: Ids, key: tuple[int, ...], number: int) -> list[tuple[int, int]]:
        """Draw (begin, end) of each span; gaps and spans alternate, outer gaps may be empty."""
        boundaries = self._word_boundaries
        starts = np.arange(len(ids)) if boundaries is None else boundaries(ids).nonzero()[0]
        units = len(starts)
        cut_out, count = self._counts(units)
        spans = _partition(cut_out, count, (*key, SPANS), number)
        gaps = _partition(units - cut_out + 2, count + 1, (*key, GAPS), number)
        gaps[[0, -1]] -= 1
        begins = np.cumsum(gaps[:-1]) + np.cumsum(spans) - spans
        edges = np.append(starts, len(ids))
        return list(zip(edges[begins].tolist(), edges[begins + spans].tolist(), strict=True))

    def _counts(self, units: int) -> tuple[int, int]:
        """Return how many of `units` tokens or words are cut out, and in how many spans."""
        cut_out = min(max(round(self._corruption_rate * units), 1), max(units - 1, 1))
        spans = min(max(round(cut_out / self._mean_span_length), 1), units - cut_out + 1)
        return cut_out, spans


def sentinel(number: int) -> str:
    """Return the name of the sentinel token of a span: extra_0 for <extra_0>, the first."""
    return f"extra_{number}"


def _partition(total: int, count: int, key: tuple[int, ...], number: int) -> Ints:
    """Draw `count` numbers ≥ 1 with the sum `total`, all partitions with equal probability."""
    drawn = uniform(key, np.full(total - 1, number), np.arange(total - 1))
    cuts = np.sort(np.argsort(drawn)[: count - 1]) + 1
    return np.diff(cuts, prepend=0, append=total)
