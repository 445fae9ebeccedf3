"""How like heads are to each other: where they look, and what they answer.

    cosine       of two rows of attention, mean over queries: 1 = they look at the same words
    divergence   Jensen–Shannon (Lin 1991) in bits: H((p + q)/2) − (H(p) + H(q))/2; 0 = the same
    CKA          linear (Kornblith et al. 2019) of answers X (N, K) and Y, columns centred:
                 ‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖); 1 = the same up to a rotation and a scale

Heads of one kind of attention are compared, in one layer and between layers. The root of the
divergence is a distance, so heads can be laid out on a plane (classical scaling, Torgerson 1952).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.insight.heads.head_activity import Glimpse
from regard.insight.heads.head_names import Head

MOST_ANSWERS = 2048  # positions that answers are compared at

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Likeness:
    """Of the heads of one kind, each with each: (G, G)."""

    heads: list[Head]
    cosine: Numbers
    divergence: Numbers
    cka: Numbers

    def within(self, measure: Numbers) -> float | None:
        """The mean over pairs of one layer."""
        return self._mean(measure, self._same_layer)

    def across(self, measure: Numbers) -> float | None:
        """The mean over pairs of different layers."""
        return self._mean(measure, ~self._same_layer)

    def overall(self, measure: Numbers) -> float | None:
        return self._mean(measure, np.ones_like(self._same_layer))

    def nearest(self) -> tuple[Head, Head] | None:
        """The two whose attention differs least."""
        if len(self.heads) < 2:
            return None
        apart = self.divergence + np.eye(len(self.heads)) * 9
        one, other = np.unravel_index(apart.argmin(), apart.shape)
        return self.heads[one], self.heads[other]

    @property
    def _same_layer(self) -> npt.NDArray[np.bool_]:
        layers = np.array([head.layer for head in self.heads])
        return np.asarray(layers[:, None] == layers[None, :])

    def _mean(self, measure: Numbers, chosen: npt.NDArray[np.bool_]) -> float | None:
        pairs = np.triu(chosen, 1)
        return float(measure[pairs].mean()) if pairs.any() else None


def likeness(glimpses: Iterable[Glimpse]) -> Likeness:
    """Of all heads of one kind, over the queries that have a choice."""
    heads: list[Head] = []
    cosine: Tensor | float = 0.0
    divergence: Tensor | float = 0.0
    queries = 0
    answers: list[Tensor] = []
    for glimpse in glimpses:
        heads, chosen = glimpse.heads, glimpse.sight.choosing
        weights = glimpse.weights[:, chosen].float()  # (G, N, S)
        cosine = cosine + _cosines(weights)
        divergence = divergence + divergences(weights)
        queries += weights.shape[1]
        if sum(each.shape[1] for each in answers) < MOST_ANSWERS:
            answers.append(glimpse.answers[:, chosen].float())
    count = max(queries, 1)
    return Likeness(
        heads,
        np.asarray(cosine) / count,
        np.asarray(divergence) / count,
        _cka(torch.cat(answers, 1)[:, :MOST_ANSWERS]),
    )


def _cosines(weights: Tensor) -> Tensor:
    unit = torch.nn.functional.normalize(weights, dim=-1).flatten(1)
    return (unit @ unit.T).double()


def divergences(weights: Tensor) -> Tensor:
    """Jensen–Shannon of each two of G heads, summed over the queries: (G, N, S) → (G, G)."""
    entropy = _entropy(weights)
    found = torch.zeros(len(weights), len(weights), dtype=torch.float64)
    for at in range(len(weights)):
        mixed = _entropy((weights[at] + weights[at:]) / 2)  # (G − at, N)
        apart = (mixed - (entropy[at] + entropy[at:]) / 2).clamp_min(0).double().sum(1)
        found[at, at:] = found[at:, at] = apart
    return found


def _entropy(weights: Tensor) -> Tensor:
    return -(weights * weights.clamp_min(1e-30).log2()).sum(-1)


def _cka(answers: Tensor) -> Numbers:
    """Of answers (G, N, K), each with each."""
    centred = answers.double() - answers.double().mean(1, keepdim=True)
    shared = torch.stack(
        [(each.T @ centred).square().sum((1, 2)) for each in centred]  # ‖XᵀY‖² of one with all
    )
    own = shared.diagonal().sqrt()
    return np.asarray(shared / (own[:, None] * own[None, :]).clamp_min(1e-30))


def laid_out(divergence: Numbers) -> Numbers:
    """A place on the plane for each head, (G, 2): like ones lie together.

    With D² the squared distances and J = I − 1/G, the first two eigenvectors of −½ J D² J, each
    times the root of its eigenvalue.
    """
    count = len(divergence)
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-centring @ divergence @ centring / 2)
    places = np.zeros((count, 2))
    for axis in range(min(2, count)):
        vector = vectors[:, -1 - axis]
        # A direction has no sign of its own: let its largest part be positive, always.
        vector = vector * np.sign(vector[np.abs(vector).argmax()])
        places[:, axis] = vector * np.sqrt(max(values[-1 - axis], 0.0))
    return places
