"""Which source word each word of a translation came from, by the cross-attention.

When a decoder is about to say a word, its heads look at the source. The mean of the heads of one
layer, summed over the pieces of each word, points at where the word comes from. It is a layer in
the middle that points best, not the last (Garg et al. 2019, section 5).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from regard.errors import DataError
from regard.insight.watch import watch
from regard.predictors.translator import Translation, Translator

Weights = npt.NDArray[np.float32]


class Link(NamedTuple):
    """Words are counted from 0, as they stand between spaces."""

    source: int
    target: int
    weight: float  # how much of the attention went there, 0 to 1

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


def align(
    translator: Translator, source: str, target: str, to: str | None = None, layer: int = -2
) -> list[Link]:
    """A link for each word of the target: to the source word that was looked at most."""
    to = to or translator.other_language(source)
    asked = translator.source_ids(source, to, "the source")
    said = translator.target_ids(target, "the translation")
    weights = _weights(translator, asked, said, layer)
    words = translator.tokenizer.words(source)
    before = len(asked) - 1 - len(words)  # the tag, where there is one; the end is not looked at
    weights = weights[: len(said), before : before + len(words)]
    by_word = _summed(_summed(weights, words).T, translator.tokenizer.words(target)).T
    by_word /= by_word.sum(1, keepdims=True)
    return [Link(int(row.argmax()), place, float(row.max())) for place, row in enumerate(by_word)]


def align_parts(
    translator: Translator, translation: Translation, to: str | None = None
) -> list[Link]:
    """Of a line that was translated in parts: words are counted through the whole line."""
    links: list[Link] = []
    sources = targets = 0
    for source, target in translation.parts:
        for link in align(translator, source, target, to) if target.strip() else []:
            links.append(Link(link.source + sources, link.target + targets, link.weight))
        sources, targets = sources + len(source.split()), targets + len(target.split())
    return links


def _weights(translator: Translator, asked: list[int], said: list[int], layer: int) -> Weights:
    """The mean over the heads of one cross-attention: (words to be said, source)."""
    device = translator.device
    with torch.inference_mode(), watch(translator.model, {"weights"}) as seen:
        translator.model(
            torch.tensor([asked], device=device),
            torch.ones(1, len(asked), dtype=torch.bool, device=device),
            torch.tensor([[translator.tokenizer.start, *said]], device=device),
        )
    if not seen.has("decoder.blocks", "cross"):
        raise DataError(
            "this translator has no cross-attention, so there is nothing to align by: leave out "
            "alignments, or train one that looks across at its source."
        )
    layers = seen.stack("decoder.blocks", "cross")
    chosen: Weights = layers[max(layer, -len(layers))].mean(0)
    return chosen


def _summed(weights: Weights, words: Sequence[int]) -> Weights:
    """Columns of pieces (N, pieces) added up by the word they belong to: (N, words)."""
    summed = np.zeros((len(weights), max(words) + 1), dtype=np.float32)
    for piece, word in enumerate(words):
        summed[:, word] += weights[:, piece]
    return summed
