"""Heads turned up, down or off while a model runs; the model itself is not changed.

    output = [ξ_1 head_1 … ξ_H head_H] W_O            ξ = 1: as it is, ξ = 0: masked

(Michel et al. 2019, section 2.3). A hook before W_O does it, for as long as the context lasts.

To remove a head is to mask it, with one exception. A head whose twin (the same W_Q, W_K and W_V)
is left has nothing of its own to say: with its columns of W_O added to the twin's, the output is
exactly what it was. So it goes for nothing, and only with the last of them does something go.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.multi_head import MultiHead
from regard.errors import ConfigError
from regard.insight.heads.head_names import Head, attention, attentions

Gates = Mapping[str, Tensor]  # by the name of the attention: (H,), or (B, H) for each row


@contextmanager
def gated(model: nn.Module, gates: Gates) -> Iterator[None]:
    """Within, each head's answer is multiplied by its gate."""
    found = {name: each for name, each in model.named_modules() if isinstance(each, MultiHead)}
    for name, gate in gates.items():
        if name not in found:
            raise ConfigError(f"there is no attention '{name}' here, only: {', '.join(found)}.")
        if gate.shape[-1] != found[name].heads:
            raise ConfigError(
                f"{name} has {found[name].heads} heads and was given {gate.shape[-1]} gates."
            )
    hooks = [
        found[name].w_o.register_forward_pre_hook(_scaling(gate)) for name, gate in gates.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _scaling(gate: Tensor) -> Any:
    by_row = gate[..., None, :, None]  # (1, H, 1) or (B, 1, H, 1)

    def scale(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        answers = inputs[0].view(*inputs[0].shape[:2], gate.shape[-1], -1)  # (B, T, H, K)
        return ((answers * by_row.to(answers.dtype)).flatten(-2),)

    return scale


def without(model: nn.Module, removed: Collection[Head]) -> dict[str, Tensor]:
    """The gates that remove these heads, 0 or 1; twins speak for each other."""
    device = next(model.parameters()).device
    gates = {}
    for name, heads in attentions(model).items():
        gone = {head.number for head in heads if head in removed}
        if gone:
            groups = twins(attention(model, name))
            left = {groups[head.number] for head in heads if head.number not in gone}
            gate = [float(groups[each] in left) for each in range(len(heads))]
            gates[name] = torch.tensor(gate, device=device)
    return gates


def silenced(model: nn.Module, gates: Gates) -> nn.Module:
    """A copy with the gates in its W_O: the same answers without a hook, so that engines apply."""
    copy = deepcopy(model)
    with torch.no_grad():
        for name, gate in gates.items():
            w_o = attention(copy, name).w_o.weight
            w_o.mul_(gate.repeat_interleave(w_o.shape[1] // len(gate)))
    return copy


@torch.no_grad()
def twins(heads: MultiHead) -> list[int]:
    """For each head the first one that is the same: mostly, itself."""
    own = _by_head(heads)
    first: list[int] = []
    for each in range(heads.heads):
        same = (other for other in range(each) if torch.equal(own[other], own[each]))
        first.append(next(same, each))
    return first


def _by_head(heads: MultiHead) -> Tensor:
    """All that decides what a head answers: (H, N)."""
    parts = []
    for linear in (heads.w_q, heads.w_k, heads.w_v):
        count = linear.out_features // heads.head_dim
        rows = [linear.weight] if linear.bias is None else [linear.weight, linear.bias[:, None]]
        parts.append(torch.cat(rows, 1).view(count, -1).repeat_interleave(heads.heads // count, 0))
    here = torch.zeros(1, dtype=torch.long, device=parts[0].device)
    around = torch.arange(-512, 513, device=parts[0].device)
    queries = parts[0].new_zeros(1, heads.heads, 1, heads.head_dim)
    bias = heads.position.bias(queries, here, around)
    if bias is not None:
        parts.append(bias.reshape(heads.heads, -1).to(parts[0].dtype))
    return torch.cat(parts, 1)
