"""Alignment of the words of a translation with those of its source, as plain data.

The weights are those of the cross-attention (`insight/alignment.py`), which the torch model
computes: requests for them run in a process of their own, where torch may be loaded.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel

from regard.missing_modules import required_by
from regard.serving.tasks.base import TaskContext

if TYPE_CHECKING:
    from regard.insight.alignment import Weights
    from regard.predictors.translator import Translator

MIN_WEIGHT = 0.05  # of a link that is listed, except the largest of its target word

Link = tuple[int, int, float]  # source word, target word, share of the attention


class Alignment(BaseModel):
    """Words of a source and of its translation, between spaces, and the links between them.

    The links of a target word are together, the largest first: that is the word it is aligned to.
    """

    source_words: list[str]
    target_words: list[str]
    links: list[Link]


def align_pairs(
    translator: "Translator",
    pairs: Sequence[tuple[str, str]],
    to: str | None,
    context: TaskContext,
) -> list[Alignment]:
    """Return the alignment of each pair of a source and its translation.

    Raises:
        DataError: The translator has no cross-attention, or a text is too long for it.
        MissingModuleError: torch is not installed.
    """
    return list(_alignments(translator, pairs, to, context))


def concatenated(alignments: Iterable[Alignment]) -> Alignment:
    """Return the alignment of texts one after the other."""
    whole = Alignment(source_words=[], target_words=[], links=[])
    for part in alignments:
        sources, targets = len(whole.source_words), len(whole.target_words)
        whole.links += [(s + sources, t + targets, weight) for s, t, weight in part.links]
        whole.source_words += part.source_words
        whole.target_words += part.target_words
    return whole


def _alignments(
    translator: "Translator",
    pairs: Sequence[tuple[str, str]],
    to: str | None,
    context: TaskContext,
) -> Iterator[Alignment]:
    with required_by("alignment"):
        from regard.insight.alignment import word_weights
    for source, target in pairs:
        context.check()
        alignment = Alignment(source_words=source.split(), target_words=target.split(), links=[])
        if alignment.source_words and alignment.target_words:
            alignment.links += _links(word_weights(translator, source, target, to))
        yield alignment


def _links(weights: "Weights") -> Iterator[Link]:
    for target, row in enumerate(weights):
        order = (-row).argsort(kind="stable")
        for rank, source in enumerate(order.tolist()):
            if rank == 0 or row[source] >= MIN_WEIGHT:
                yield source, target, round(float(row[source]), 4)
