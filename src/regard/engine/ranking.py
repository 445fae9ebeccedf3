"""The highest logits of each row and its log Σ exp, for beam search."""

import torch
from torch import Tensor

from regard.engine.library import library


def rank(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `count` highest logits (R, V) of each row, their indices, and log Σ exp (R,)."""
    compiled = library()
    if compiled is None or logits.device.type != "cpu" or logits.dtype != torch.float32:
        best = logits.topk(count)
        return best.values, best.indices, logits.logsumexp(-1)
    logits = logits.contiguous()
    rows, size = logits.shape
    if not 0 < count <= size:
        raise ValueError(f"the {count} highest of {size} logits")
    values, sums = torch.empty(rows, count), torch.empty(rows)
    indices = torch.empty(rows, count, dtype=torch.int32)
    compiled.regard_rank(
        logits.data_ptr(),
        rows,
        size,
        count,
        sums.data_ptr(),
        values.data_ptr(),
        indices.data_ptr(),
        torch.get_num_threads(),
    )
    return values, indices.long(), sums
