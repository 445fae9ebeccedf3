"""Attention step by step, with the vectors of this model.

x → q, k, v → q·k → ÷ √K → softmax → Σ α v → heads concatenated → W_O
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from regard.attention.multi_head import MultiHead
from regard.insight.forward_passes import AttentionSite, ForwardPass
from regard.insight.packing import Floats, pack_floats
from regard.insight.seen import Seen, as_numpy
from regard.insight.views.base import View, ViewData

ARRAYS = ("inputs", "memory", "queries", "keys", "values", "head_outputs", "output")


@dataclass(frozen=True)
class StepVectors:
    """The vectors of one panel: L layers, H heads, T queries, S keys, K head size, D model size."""

    panel: str
    inputs: Floats  # (L, T, D): input of the queries
    memory: Floats  # (L, S, D): input of the keys and values
    queries: Floats  # (L, H, T, K)
    keys: Floats  # (L, H, S, K)
    values: Floats  # (L, H, S, K)
    head_outputs: Floats  # (L, H, T, K): the weighted sums of the values
    output: Floats  # (L, T, D): the heads concatenated, times W_O

    def to_json(self) -> dict[str, Any]:
        arrays = {name: pack_floats(getattr(self, name)) for name in ARRAYS}
        return {"panel": self.panel, **arrays}


@dataclass(frozen=True)
class Steps(ViewData):
    """The vectors of every panel of scaled dot-product attention."""

    panels: tuple[StepVectors, ...]

    def to_json(self) -> list[dict[str, Any]]:
        return [vectors.to_json() for vectors in self.panels]


class Spec(View):
    title: ClassVar[str] = "Step by step"
    question: ClassVar[str] = (
        "How is one output of attention computed, with the model's own numbers?"
    )
    order: ClassVar[int] = 80
    keyboard: ClassVar[str] = (
        "← and → on the buttons go from step to step. On a strip of colors, ← and → go along the "
        "numbers of a vector, ↑ and ↓ from one vector to the next."
    )
    points: ClassVar[frozenset[str]] = frozenset(
        {"queries", "keys", "values", "head_outputs", "output", "residual", "scores"}
    )
    max_tokens: ClassVar[int | None] = 128

    @torch.inference_mode()
    def compute(self, run: ForwardPass, seen: Seen) -> Steps:
        """Collect the vectors of every multi-head attention of the forward pass."""
        sites = (site for site in run.sites if _is_multi_head(run, site))
        return Steps(tuple(_vectors(run, site, seen) for site in sites))


def _is_multi_head(run: ForwardPass, site: AttentionSite) -> bool:
    """Return False for attention with other scores, or without projections."""
    blocks = run.model.get_submodule(site.blocks).children()
    return all(isinstance(getattr(block, site.attention, None), MultiHead) for block in blocks)


def _vectors(run: ForwardPass, site: AttentionSite, seen: Seen) -> StepVectors:
    inputs = np.stack([as_numpy(x) for x in _inputs(run, site, seen)])
    queries, keys, values, head_outputs, output = (
        seen.by_layer(site.blocks, site.attention, point)
        for point in ("queries", "keys", "values", "head_outputs", "output")
    )
    memory = inputs
    if site.attention == "cross":
        encoder: Any = run.model.get_submodule("encoder")
        last = seen.last(f"encoder.blocks.{len(encoder.blocks) - 1}", "residual")[0]
        memory = np.stack([as_numpy(encoder.norm(last))] * len(inputs))
    return StepVectors(site.name, inputs, memory, queries, keys, values, head_outputs, output)


def _inputs(run: ForwardPass, site: AttentionSite, seen: Seen) -> list[torch.Tensor]:
    """Return the input of each layer's attention (T, D), normalized where norms come first."""
    stream = seen.last(site.blocks.removesuffix("blocks") + "embedding", "residual")[0]
    inputs = []
    for number, module in enumerate(run.model.get_submodule(site.blocks).children()):
        block: Any = module
        name = f"{site.blocks}.{number}"
        if site.attention == "cross":
            attended = seen.last(f"{name}.attention", "output")[0]
            after = block.attention_residual.add(stream, attended)
            inputs.append(block.cross_residual.sublayer_input(after))
        else:
            inputs.append(block.attention_residual.sublayer_input(stream))
        stream = seen.last(name, "residual")[0]
    return inputs
