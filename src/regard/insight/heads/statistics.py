"""Statistics of a head's attention: entropy, distance, and shares of typical targets.

    entropy    −Σ_j α_ij log₂ α_ij, in bits: 0 attends to one token, log₂ S to all alike
    distance   Σ_j α_ij |i − j|, in tokens
    shares     Σ α_ij over the previous token, the next, the first, the last, itself, punctuation

Means over the queries that may attend to more than one token, and for a share over those that have
such a target; for punctuation over all queries, without attention of a token to itself. Cross-
attention is between two sequences and has no distance.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.insight.heads.head_activity import AttentionContext, HeadActivity
from regard.insight.heads.head_names import CROSS, DECODER, Head

LABELS = {
    "previous": "previous token",
    "next": "next token",
    "same": "same token",
    "first": "first token",
    "last": "end of text",
    "punctuation": "punctuation",
}
DOMINATES = 0.5  # a head is labeled by a target with a larger share


@dataclass(frozen=True)
class HeadStatistics:
    """Statistics of one head."""

    head: Head
    entropy: float  # bits
    distance: float | None  # tokens
    shares: dict[str, float]  # by target, 0 to 1

    @property
    def label(self) -> str:
        """The dominant target; empty where there is none."""
        target = max(self.shares, key=self.shares.__getitem__, default=None)
        return LABELS[target] if target and self.shares[target] > DOMINATES else ""


def statistics(activities: Iterable[HeadActivity], punctuation: Tensor) -> list[HeadStatistics]:
    """Return the statistics of the heads of one kind; `punctuation` (V,) marks such tokens."""
    sums: dict[str, Tensor] = {}
    counts: dict[str, float] = {}
    heads: list[Head] = []
    for activity in activities:
        heads = activity.heads
        for name, (total, count) in _measured(activity, punctuation).items():
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
    """Return a mask of the token ids that are punctuation only: (V,)."""
    pieces = tokenizer.pieces(range(len(tokenizer)))
    result = torch.zeros(max(vocabulary, len(pieces)), dtype=torch.bool)
    for place, piece in enumerate(pieces):
        result[place] = bool(piece) and all(unicodedata.category(c)[0] == "P" for c in piece)
    return result


def _measured(activity: HeadActivity, punctuation: Tensor) -> dict[str, tuple[Tensor, float]]:
    """Return the sum of each statistic over the queries (G,), and their number."""
    context, weights = activity.context, activity.weights.float()
    choosing = context.choosing
    entropy = -(weights * weights.clamp_min(1e-30).log2()).sum(-1)
    result = {"entropy": _over(entropy, choosing)}
    if context.kind != CROSS:
        distance = (weights * _distances(weights).abs()).sum(-1)
        result["distance"] = _over(distance, choosing)
    for name, there in _targets(context, weights, punctuation).items():
        share = (weights * there).sum(-1)
        counted = choosing if name == "punctuation" else choosing & there.any(-1)
        result[name] = _over(share, counted)
    return result


def _over(values: Tensor, chosen: Tensor) -> tuple[Tensor, float]:
    """Return the sum of values (G, B, T) over the chosen queries (B, T), and their number."""
    return values[:, chosen].double().sum(1), float(chosen.sum())


def _distances(weights: Tensor) -> Tensor:
    queries, keys = weights.shape[-2:]
    return torch.arange(keys)[None, :] - torch.arange(queries)[:, None]  # (T, S): j − i


def _targets(context: AttentionContext, weights: Tensor, punctuation: Tensor) -> dict[str, Tensor]:
    """Return a mask of each target for each query: (B, T, S)."""
    distance = _distances(weights)
    visible = context.keys[:, None, :].expand(-1, weights.shape[-2], -1)
    if context.kind == DECODER:
        visible = visible & (distance <= 0)
    keys = torch.arange(weights.shape[-1])
    last = context.keys.sum(1)[:, None, None] - 1
    marks = visible & punctuation[context.ids][:, None, :]
    targets = {"first": visible & (keys == 0), "punctuation": marks}
    if context.kind != CROSS:
        targets["punctuation"] = marks & (distance != 0)
        targets |= {"previous": visible & (distance == -1), "same": visible & (distance == 0)}
    if context.kind != DECODER:
        targets |= {"last": visible & (keys == last)}
    if context.kind not in (CROSS, DECODER):
        targets |= {"next": visible & (distance == 1)}
    return targets
