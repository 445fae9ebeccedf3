"""Reorder model components for libraries with another layout of sinusoidal positions.

Regard interleaves sinusoids (sin, cos, sin, cos …); others put all sines first. A Transformer does
not depend on the order of its D components: permuting every matrix, norm and embedding gives the
same outputs.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

# Weights whose second (READS) or first (WRITES) dimension is D, by the end of their name.
READS = (
    "attention.w_q.weight",
    "attention.w_k.weight",
    "attention.w_v.weight",
    "cross.w_q.weight",
    "cross.w_k.weight",
    "cross.w_v.weight",
    "up_proj.weight",
    "gate_proj.weight",
    "tokens.weight",
    "output.weight",
    "position.table",
)
WRITES = ("w_o.weight", "down_proj.weight", "w_o.bias", "down_proj.bias", "norm.gain", "norm.bias")


def deinterleave(weights: Mapping[str, Tensor], dim: int) -> dict[str, Tensor]:
    """Weights of the same model with components 0, 2, 4 … first, then 1, 3, 5 …"""
    order = torch.cat([torch.arange(0, dim, 2), torch.arange(1, dim, 2)])
    changed = {}
    for name, tensor in weights.items():
        if name.endswith(READS):
            changed[name] = tensor[:, order]
        elif name.endswith(WRITES):
            changed[name] = tensor[order]
        else:
            changed[name] = tensor
    return changed
