"""Similarity of heads: of their attention weights and of their outputs.

    cosine       of two rows of attention, mean over queries: 1 = equal weights
    divergence   Jensen–Shannon (Lin 1991) in bits: H((p + q)/2) − (H(p) + H(q))/2; 0 = equal
    CKA          linear (Kornblith et al. 2019) of outputs X (N, K) and Y, columns centered:
                 ‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖); 1 = equal up to a rotation and a scale

Heads of one kind of attention are compared, within a layer and across layers. The root of the
divergence is a distance, so heads can be drawn on a plane (classical scaling, Torgerson 1952).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.insight.heads.head_activity import HeadActivity
from regard.insight.heads.head_names import Head

MAX_POSITIONS = 2048  # at which outputs are compared

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Similarity:
    """Similarity of every two heads of one kind: (G, G)."""

    heads: list[Head]
    cosine: Numbers
    divergence: Numbers
    cka: Numbers

    def within(self, measure: Numbers) -> float | None:
        """Return the mean over pairs in the same layer."""
        return self._mean(measure, self._same_layer)

    def across(self, measure: Numbers) -> float | None:
        """Return the mean over pairs in different layers."""
        return self._mean(measure, ~self._same_layer)

    def overall(self, measure: Numbers) -> float | None:
        """Return the mean over all pairs."""
        return self._mean(measure, np.ones_like(self._same_layer))

    def nearest(self) -> tuple[Head, Head] | None:
        """Return the two heads with the smallest divergence."""
        if len(self.heads) < 2:
            return None
        others = self.divergence + np.eye(len(self.heads)) * 9
        one, other = np.unravel_index(others.argmin(), others.shape)
        return self.heads[one], self.heads[other]

    @property
    def _same_layer(self) -> npt.NDArray[np.bool_]:
        layers = np.array([head.layer for head in self.heads])
        return np.asarray(layers[:, None] == layers[None, :])

    def _mean(self, measure: Numbers, chosen: npt.NDArray[np.bool_]) -> float | None:
        pairs = np.triu(chosen, 1)
        return float(measure[pairs].mean()) if pairs.any() else None


def similarity(activities: Iterable[HeadActivity]) -> Similarity:
    """Compare all heads of one kind, over the queries that may attend to several keys."""
    heads: list[Head] = []
    cosine: Tensor | float = 0.0
    divergence: Tensor | float = 0.0
    queries = 0
    outputs: list[Tensor] = []
    for activity in activities:
        heads, chosen = activity.heads, activity.context.choosing
        weights = activity.weights[:, chosen].float()  # (G, N, S)
        cosine = cosine + _cosines(weights)
        divergence = divergence + divergences(weights)
        queries += weights.shape[1]
        if sum(output.shape[1] for output in outputs) < MAX_POSITIONS:
            outputs.append(activity.outputs[:, chosen].float())
    count = max(queries, 1)
    return Similarity(
        heads,
        np.asarray(cosine) / count,
        np.asarray(divergence) / count,
        _cka(torch.cat(outputs, 1)[:, :MAX_POSITIONS]),
    )


def _cosines(weights: Tensor) -> Tensor:
    unit = torch.nn.functional.normalize(weights, dim=-1).flatten(1)
    return (unit @ unit.T).double()


def divergences(weights: Tensor) -> Tensor:
    """Return the divergence of every two heads, summed over queries: (G, N, S) → (G, G)."""
    entropy = _entropy(weights)
    divergence = torch.zeros(len(weights), len(weights), dtype=torch.float64)
    for at in range(len(weights)):
        mixed = _entropy((weights[at] + weights[at:]) / 2)  # (G − at, N)
        apart = (mixed - (entropy[at] + entropy[at:]) / 2).clamp_min(0).double().sum(1)
        divergence[at, at:] = divergence[at:, at] = apart
    return divergence


def _entropy(weights: Tensor) -> Tensor:
    return -(weights * weights.clamp_min(1e-30).log2()).sum(-1)


def _cka(outputs: Tensor) -> Numbers:
    """Return the CKA of every two outputs (G, N, K)."""
    centered = outputs.double() - outputs.double().mean(1, keepdim=True)
    shared = torch.stack(
        [
            (output.T @ centered).square().sum((1, 2)) for output in centered
        ]  # ‖XᵀY‖² of one with all
    )
    own = shared.diagonal().sqrt()
    return np.asarray(shared / (own[:, None] * own[None, :]).clamp_min(1e-30))


def classical_scaling(divergence: Numbers) -> Numbers:
    """Return a point on the plane for each head, (G, 2), with distances near √divergence.

    With D² the squared distances and J = I − 1/G, the first two eigenvectors of −½ J D² J, each
    times the root of its eigenvalue.
    """
    count = len(divergence)
    centering = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-centering @ divergence @ centering / 2)
    points = np.zeros((count, 2))
    for axis in range(min(2, count)):
        vector = vectors[:, -1 - axis]
        # The sign of an eigenvector is arbitrary: make its largest component positive.
        vector = vector * np.sign(vector[np.abs(vector).argmax()])
        points[:, axis] = vector * np.sqrt(max(values[-1 - axis], 0.0))
    return points
