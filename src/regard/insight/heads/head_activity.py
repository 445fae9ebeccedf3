"""Activity of every head on a batch: attention weights and head outputs.

Shapes: G heads of one kind, layer by layer; B rows, T queries, S keys, K head size.
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
class AttentionContext:
    """The queries and keys of one kind of attention."""

    queries: Tensor  # (B, T), True = token
    keys: Tensor  # (B, S), True = token
    ids: Tensor  # (B, S), the key tokens
    kind: str

    @property
    def choosing(self) -> Tensor:
        """(B, T): True for queries that may attend to more than one key."""
        if self.kind == DECODER:
            return self.queries & (torch.arange(self.queries.size(1)) > 0)
        return self.queries & (self.keys.sum(1, keepdim=True) > 1)


@dataclass(frozen=True)
class HeadActivity:
    """Attention weights and outputs of the heads of one kind."""

    heads: list[Head]
    weights: Tensor  # (G, B, T, S)
    outputs: Tensor  # (G, B, T, K)
    context: AttentionContext


@torch.inference_mode()
def head_activity(model: nn.Module, examples: Examples) -> Iterator[dict[str, HeadActivity]]:
    """Yield for each batch the activity of the heads of each kind."""
    device = next(model.parameters()).device
    kinds = by_kind(model)
    for batch in examples.batches(ROWS):
        with watch(model) as seen, _head_outputs(model) as outputs:
            run(model, batch.to(device))
        by_name = {}
        for kind, heads in kinds.items():
            names = list(dict.fromkeys(head.module for head in heads))
            weights = torch.cat([seen.weights(name).transpose(0, 1) for name in names])
            stacked = torch.cat([outputs[name] for name in names])
            context = attention_context(batch, kind)
            by_name[kind] = HeadActivity(heads, weights.cpu(), stacked.cpu(), context)
        yield by_name


def attention_context(batch: AnyBatch, kind: str) -> AttentionContext:
    """Return the queries and keys of one kind of attention in a batch."""
    if isinstance(batch, TextBatch):
        token_mask, ids = batch.token_mask, batch.ids
        return AttentionContext(token_mask[:, 1:], token_mask[:, :-1], ids[:, :-1], DECODER)
    if not isinstance(batch, PairBatch):
        return AttentionContext(batch.token_mask, batch.token_mask, batch.ids, ENCODER)
    target_mask = batch.target_mask
    return {
        ENCODER: AttentionContext(batch.source_mask, batch.source_mask, batch.source, ENCODER),
        DECODER: AttentionContext(
            target_mask[:, 1:], target_mask[:, :-1], batch.target[:, :-1], DECODER
        ),
        CROSS: AttentionContext(target_mask[:, 1:], batch.source_mask, batch.source, CROSS),
    }[kind]


@contextmanager
def _head_outputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect each head's output before W_O, by the name of its attention: (H, B, T, K)."""
    outputs: dict[str, Tensor] = {}

    def recorder(name: str, heads: int) -> Any:
        def record(_: nn.Module, inputs: tuple[Tensor]) -> None:
            by_head = inputs[0].view(*inputs[0].shape[:2], heads, -1)
            outputs[name] = by_head.permute(2, 0, 1, 3)

        return record

    hooks = [
        module.w_o.register_forward_pre_hook(recorder(name, module.heads))
        for name, module in model.named_modules()
        if isinstance(module, MultiHead)
    ]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
