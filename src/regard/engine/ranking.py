"""The highest numbers of each row and its log Σ exp: what a beam asks of the logits."""

import torch
from torch import Tensor

from regard.engine.library import library


def rank(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of logits (R, V): the `count` highest of each row, where they are, and log Σ exp (R,)."""
    found = library()
    if found is None or logits.device.type != "cpu" or logits.dtype != torch.float32:
        best = logits.topk(count)
        return best.values, best.indices, logits.logsumexp(-1)
    logits = logits.contiguous()
    rows, size = logits.shape
    values, sums = torch.empty(rows, count), torch.empty(rows)
    places = torch.empty(rows, count, dtype=torch.int32)
    found.regard_rank(
        logits.data_ptr(),
        rows,
        size,
        count,
        sums.data_ptr(),
        values.data_ptr(),
        places.data_ptr(),
        torch.get_num_threads(),
    )
    return values, places.long(), sums
