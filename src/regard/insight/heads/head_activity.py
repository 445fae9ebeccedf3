"""What every head did with a batch: where it looked, and what it answered.

Shapes: G heads of one kind, layer by layer; B rows, T queries, S keys, K key size.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.multi_head import MultiHead
from regard.data.batches.pairs import PairBatch
from regard.data.batches.text import TextBatch
from regard.insight.heads.examples import AnyBatch, Examples
from regard.insight.heads.head_names import CROSS, DECODER, ENCODER, Head, by_kind
from regard.insight.heads.losses import run
from regard.insight.watch import watch

ROWS = 8  # at a time: every head's weights are in memory together


@dataclass(frozen=True)
class Sight:
    """Who looks at what in one kind of attention."""

    queries: Tensor  # (B, T), True = a real word
    keys: Tensor  # (B, S), likewise
    ids: Tensor  # (B, S), the words looked at
    kind: str

    @property
    def choosing(self) -> Tensor:
        """(B, T): the real queries that see more than one word. The others have no choice."""
        if self.kind == DECODER:
            return self.queries & (torch.arange(self.queries.size(1)) > 0)
        return self.queries & (self.keys.sum(1, keepdim=True) > 1)


@dataclass(frozen=True)
class Glimpse:
    heads: list[Head]
    weights: Tensor  # (G, B, T, S)
    answers: Tensor  # (G, B, T, K)
    sight: Sight


@torch.inference_mode()
def glimpses(model: nn.Module, examples: Examples) -> Iterator[dict[str, Glimpse]]:
    """For each batch, what the heads of each kind did."""
    device = next(model.parameters()).device
    kinds = by_kind(model)
    for batch in examples.batches(ROWS):
        with watch(model) as seen, _heard(model) as answers:
            run(model, batch.to(device))
        found = {}
        for kind, heads in kinds.items():
            names = list(dict.fromkeys(head.module for head in heads))
            weights = torch.cat([seen.weights(name).transpose(0, 1) for name in names])
            answered = torch.cat([answers[name] for name in names])
            found[kind] = Glimpse(heads, weights.cpu(), answered.cpu(), sight(batch, kind))
        yield found


def sight(batch: AnyBatch, kind: str) -> Sight:
    if isinstance(batch, TextBatch):
        token_mask, ids = batch.token_mask, batch.ids
        return Sight(token_mask[:, 1:], token_mask[:, :-1], ids[:, :-1], DECODER)
    if not isinstance(batch, PairBatch):
        return Sight(batch.token_mask, batch.token_mask, batch.ids, ENCODER)
    said = batch.target_mask
    return {
        ENCODER: Sight(batch.source_mask, batch.source_mask, batch.source, ENCODER),
        DECODER: Sight(said[:, 1:], said[:, :-1], batch.target[:, :-1], DECODER),
        CROSS: Sight(said[:, 1:], batch.source_mask, batch.source, CROSS),
    }[kind]


@contextmanager
def _heard(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Each head's answer before W_O, by the name of its attention: (H, B, T, K)."""
    answers: dict[str, Tensor] = {}

    def listener(name: str, heads: int) -> Any:
        def listen(_: nn.Module, inputs: tuple[Tensor]) -> None:
            by_head = inputs[0].view(*inputs[0].shape[:2], heads, -1)
            answers[name] = by_head.permute(2, 0, 1, 3)

        return listen

    hooks = [
        module.w_o.register_forward_pre_hook(listener(name, module.heads))
        for name, module in model.named_modules()
        if isinstance(module, MultiHead)
    ]
    try:
        yield answers
    finally:
        for hook in hooks:
            hook.remove()
