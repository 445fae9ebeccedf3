"""What a head looks at, in numbers: how widely, how far, and at which places.

    entropy    −Σ_j α_ij log₂ α_ij, in bits: 0 looks at one word, log₂ S at all alike
    distance   Σ_j α_ij |i − j|, in words
    shares     Σ α_ij over the previous word, the next, the first, the last, itself, punctuation

Means over the queries that see more than one word, and for a share over those that have such a
place; of punctuation over all, and a mark that looks at itself does not count. Two sequences have
no distance between them, so cross-attention has only some of this.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.insight.heads.head_activity import Glimpse, Sight
from regard.insight.heads.head_names import CROSS, DECODER, Head

LABELS = {
    "previous": "previous token",
    "next": "next token",
    "same": "same token",
    "first": "first token",
    "last": "end of text",
    "punctuation": "punctuation",
}
DOMINATES = 0.5  # a head is called after a place that gets more than this


@dataclass(frozen=True)
class HeadStatistics:
    head: Head
    entropy: float  # bits
    distance: float | None  # words
    shares: dict[str, float]  # by place, 0 to 1

    @property
    def label(self) -> str:
        """What it looks at most of the time; nothing where no place dominates."""
        place = max(self.shares, key=self.shares.__getitem__, default=None)
        return LABELS[place] if place and self.shares[place] > DOMINATES else ""


def statistics(glimpses: Iterable[Glimpse], punctuation: Tensor) -> list[HeadStatistics]:
    """Of all heads of one kind. `punctuation` (V,) says which ids are."""
    sums: dict[str, Tensor] = {}
    counts: dict[str, float] = {}
    heads: list[Head] = []
    for glimpse in glimpses:
        heads = glimpse.heads
        for name, (total, count) in _measured(glimpse, punctuation).items():
            sums[name] = sums.get(name, 0.0) + total
            counts[name] = counts.get(name, 0.0) + count
    means = {name: (sums[name] / counts[name]).tolist() for name in sums if counts[name]}
    entropy, distance = means.pop("entropy", None), means.pop("distance", None)
    return [
        HeadStatistics(
            head=head,
            entropy=entropy[at] if entropy else 0.0,
            distance=distance[at] if distance else None,
            shares={name: means[name][at] for name in means},
        )
        for at, head in enumerate(heads)
    ]


def punctuation_of(tokenizer: Tokenizer, vocabulary: int) -> Tensor:
    """Which of the model's ids are nothing but punctuation: (V,)."""
    pieces = tokenizer.pieces(range(len(tokenizer)))
    found = torch.zeros(max(vocabulary, len(pieces)), dtype=torch.bool)
    for place, piece in enumerate(pieces):
        found[place] = bool(piece) and all(unicodedata.category(c)[0] == "P" for c in piece)
    return found


def _measured(glimpse: Glimpse, punctuation: Tensor) -> dict[str, tuple[Tensor, float]]:
    """Each number's sum over the queries (G,), and how many they are."""
    sight, weights = glimpse.sight, glimpse.weights.float()
    choosing = sight.choosing
    entropy = -(weights * weights.clamp_min(1e-30).log2()).sum(-1)
    found = {"entropy": _over(entropy, choosing)}
    if sight.kind != CROSS:
        distance = (weights * _distances(weights).abs()).sum(-1)
        found["distance"] = _over(distance, choosing)
    for name, there in _places(sight, weights, punctuation).items():
        share = (weights * there).sum(-1)
        counted = choosing if name == "punctuation" else choosing & there.any(-1)
        found[name] = _over(share, counted)
    return found


def _over(values: Tensor, chosen: Tensor) -> tuple[Tensor, float]:
    """The sum of values (G, B, T) over the chosen (B, T), and how many they are."""
    return values[:, chosen].double().sum(1), float(chosen.sum())


def _distances(weights: Tensor) -> Tensor:
    queries, keys = weights.shape[-2:]
    return torch.arange(keys)[None, :] - torch.arange(queries)[:, None]  # (T, S): j − i


def _places(sight: Sight, weights: Tensor, punctuation: Tensor) -> dict[str, Tensor]:
    """Where each place is, as seen by each query: (B, T, S)."""
    distance = _distances(weights)
    visible = sight.keys[:, None, :].expand(-1, weights.shape[-2], -1)
    if sight.kind == DECODER:
        visible = visible & (distance <= 0)
    keys = torch.arange(weights.shape[-1])
    last = sight.keys.sum(1)[:, None, None] - 1
    marks = visible & punctuation[sight.ids][:, None, :]
    places = {"first": visible & (keys == 0), "punctuation": marks}
    if sight.kind != CROSS:
        places["punctuation"] = marks & (distance != 0)
        places |= {"previous": visible & (distance == -1), "same": visible & (distance == 0)}
    if sight.kind != DECODER:
        places |= {"last": visible & (keys == last)}
    if sight.kind not in (CROSS, DECODER):
        places |= {"next": visible & (distance == 1)}
    return places
