"""Our weights rearranged for libraries that lay positions out in another way.

Sinusoids are interleaved here (sin, cos, sin, cos …) and in halves there (all sines first). The
order of the model's D components means nothing to a Transformer: put every matrix, norm and
embedding in the other order, and what is computed is the same.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

# Which side of a weight meets the D components, by how its name ends.
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


def in_halves(weights: Mapping[str, Tensor], dim: int) -> dict[str, Tensor]:
    """The weights of the same model with its components 0, 2, 4 … first, then 1, 3, 5 …"""
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
