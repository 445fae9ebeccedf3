"""Head masks: scale or mask the outputs of heads while a model runs, without changing the model.

    output = [ξ_1 head_1 … ξ_H head_H] W_O            ξ = 1: unchanged, ξ = 0: masked

(Michel et al. 2019, section 2.3), by a hook before W_O for as long as the context lasts.

Removing a head is masking it, with one exception. A head with a remaining duplicate (the same W_Q,
W_K and W_V) is redundant: with its columns of W_O added to the duplicate's, the output is exactly
the same. Only removing the last of them changes the output.
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

HeadMasks = Mapping[str, Tensor]  # by the name of the attention: (H,), or (B, H) by row


@contextmanager
def masked_heads(model: nn.Module, head_masks: HeadMasks) -> Iterator[None]:
    """Multiply each head's output by its mask while the context lasts."""
    modules = {name: m for name, m in model.named_modules() if isinstance(m, MultiHead)}
    for name, head_mask in head_masks.items():
        if name not in modules:
            raise ConfigError(f"there is no attention '{name}' here, only: {', '.join(modules)}.")
        if head_mask.shape[-1] != modules[name].heads:
            raise ConfigError(
                f"{name} has {modules[name].heads} heads and got a mask of {head_mask.shape[-1]}."
            )
    hooks = [
        modules[name].w_o.register_forward_pre_hook(_scaling(head_mask))
        for name, head_mask in head_masks.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _scaling(head_mask: Tensor) -> Any:
    by_row = head_mask[..., None, :, None]  # (1, H, 1) or (B, 1, H, 1)

    def scale(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        outputs = inputs[0].view(*inputs[0].shape[:2], head_mask.shape[-1], -1)  # (B, T, H, K)
        return ((outputs * by_row.to(outputs.dtype)).flatten(-2),)

    return scale


def without(model: nn.Module, removed: Collection[Head]) -> dict[str, Tensor]:
    """Return the masks (0 or 1) that remove these heads; a duplicate replaces a removed head."""
    device = next(model.parameters()).device
    head_masks = {}
    for name, heads in attentions(model).items():
        gone = {head.number for head in heads if head in removed}
        if gone:
            groups = duplicates(attention(model, name))
            left = {groups[head.number] for head in heads if head.number not in gone}
            head_mask = [float(groups[number] in left) for number in range(len(heads))]
            head_masks[name] = torch.tensor(head_mask, device=device)
    return head_masks


def copy_with_head_masks(model: nn.Module, head_masks: HeadMasks) -> nn.Module:
    """Return a copy with the masks multiplied into its W_O, which the compiled engine can run."""
    copy = deepcopy(model)
    with torch.no_grad():
        for name, head_mask in head_masks.items():
            w_o = attention(copy, name).w_o.weight
            w_o.mul_(head_mask.repeat_interleave(w_o.shape[1] // len(head_mask)))
    return copy


@torch.no_grad()
def duplicates(heads: MultiHead) -> list[int]:
    """Return for each head the number of the first one that is equal: mostly, itself."""
    own = _by_head(heads)
    first: list[int] = []
    for number in range(heads.heads):
        same = (other for other in range(number) if torch.equal(own[other], own[number]))
        first.append(next(same, number))
    return first


def _by_head(heads: MultiHead) -> Tensor:
    """Return all parameters that determine the output of each head: (H, N)."""
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
