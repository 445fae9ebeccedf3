"""Where each word's state comes from, layer by layer, in two ways.

Attention says what one layer looks at; by the second layer the words looked at are mixtures
already. Both ways follow the mixing from the input on, a residual path carrying each word along.

    rollout    R_l = ½ (A_l + I) R_{l-1}                 A: the mean of the heads
               (Abnar and Zuidema 2020)
    gradient   R_l = R_{l-1} + Ā_l R_{l-1}               Ā: the mean of (∇A ⊙ A)⁺, where ∇A is the
               (Chefer et al. 2021)                      gradient of what the model said

Rows are divided by their sums, to be read as shares. In cross-attention a word's share of the
source is what it looks at there, each source word being the mixture that the encoder made of it;
where no attention made it, itself.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.insight.forward_passes import Part, Reading
from regard.insight.picture import Flow, Numbers
from regard.insight.seen import Seen, as_numpy
from regard.insight.watch import watch

TITLES = {"rollout": "Attention rollout", "gradient": "Gradient-weighted attention"}


def flows(reading: Reading, seen: Seen) -> tuple[Flow, ...]:
    """Both ways, for each part of a reading; `seen` has its weights."""
    mixed = {part.name: seen.stack(part.blocks, part.attention).mean(1) for part in reading.parts}
    towards = _towards_the_answer(reading)
    return tuple(
        Flow(way, TITLES[way], part.name, shares)
        for way, layers, keep, add in (
            ("rollout", mixed, 0.5, 0.5),
            ("gradient", towards, 1.0, 1.0),
        )
        for part, shares in zip(
            reading.parts, _followed(reading.parts, layers, keep, add), strict=True
        )
    )


def _followed(
    parts: Sequence[Part], layers: dict[str, Numbers], keep: float, add: float
) -> list[Numbers]:
    """For each part the shares after each of its layers (L, T, S)."""
    found: dict[str, Numbers] = {}
    for part in parts:
        weights = layers[part.name]
        if part.attention == "cross":
            source = found["encoder"][-1] if "encoder" in found else np.eye(weights.shape[2])
            mixed = [_shares((layer @ source).astype(np.float32)) for layer in weights]
            found[part.name] = np.stack(mixed)
            continue
        now: Numbers = np.eye(weights.shape[1], dtype=np.float32)
        after = []
        for layer in weights:
            now = keep * now + add * (layer @ now)
            after.append(_shares(now))
        found[part.name] = np.stack(after)
    return [found[part.name] for part in parts]


def _shares(rows: Numbers) -> Numbers:
    total = rows.sum(1, keepdims=True)
    shares: Numbers = np.divide(rows, total, out=np.zeros_like(rows), where=total > 0)
    return shares


def _towards_the_answer(reading: Reading) -> dict[str, Numbers]:
    """Of each part the mean over heads of (∇A ⊙ A)⁺: (L, T, S)."""
    with torch.enable_grad(), watch(reading.model, {"weights"}) as seen:
        answer = reading.run().sum()
        names = seen.names()
        weights = [(name, piece) for name in names for piece in seen.pieces(name)]
        pieces = [piece for _, piece in weights]
        gradients = torch.autograd.grad(answer, pieces, allow_unused=True)
    strength: dict[str, Numbers] = {}
    for (name, weight), gradient in zip(weights, gradients, strict=True):
        here = as_numpy(_positive(weight, gradient)[0])
        strength[name] = np.concatenate([strength[name], here]) if name in strength else here
    return {
        part.name: np.stack(
            [
                strength[name]
                for name in names
                if name.startswith(f"{part.blocks}.") and name.endswith(f".{part.attention}")
            ]
        )
        for part in reading.parts
    }


def _positive(weights: Tensor, gradient: Tensor | None) -> Tensor:
    if gradient is None:  # nothing of this layer reached the answer
        return torch.zeros_like(weights).mean(1)
    return (weights * gradient).clamp(min=0).mean(1)
