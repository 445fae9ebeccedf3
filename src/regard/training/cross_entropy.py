"""Cross-entropy over a large vocabulary with label smoothing, in slices that stay in the cache.

For hidden states h (N, D), output weights W (V, D) and the words to be predicted y (N,):

    z = h Wᵀ        p = softmax(z)        q = (1 − ε) onehot(y) + ε/V       (Szegedy et al. 2016)
    loss = Σ −q · log p                   ∂loss/∂z = p − q

The logits of a batch are by far its largest tensor. Written plainly they pass through memory some
ten times; here a slice of rows is multiplied out, turned into p, and used at once for both products
of the backward pass. The two terms of q are of rank one or have one entry a row, so they never
touch the slice.
"""

from typing import Any

import torch
from torch import Tensor

SLICE = 1 << 21  # numbers in a slice of logits: 8 MB in float32


def cross_entropy(states: Tensor, weight: Tensor, words: Tensor, smoothing: float) -> Tensor:
    """The summed loss of predicting words (N,) from states (N, D) with output weights (V, D)."""
    loss: Tensor = _SlicedCrossEntropy.apply(states, weight, words, smoothing)  # type: ignore[no-untyped-call]
    return loss


class _SlicedCrossEntropy(torch.autograd.Function):
    """The gradients are worked out on the way forward, where the slice is at hand."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, words: Tensor, smoothing: float
    ) -> Tensor:
        vocabulary = weight.size(0)
        certain, spread = 1 - smoothing, smoothing / vocabulary
        chosen = weight.index_select(0, words)  # (N, D)
        total = weight.sum(0)  # (D,): h · total is the sum of a row of logits
        z_chosen = (states * chosen).sum(-1)

        d_states = torch.empty_like(states)
        d_weight = torch.zeros_like(weight)
        log_sum = torch.empty_like(z_chosen)  # log Σ exp z
        nothing = torch.finfo(states.dtype).tiny
        rows = max(1, SLICE // vocabulary)
        for start in range(0, states.size(0), rows):
            part = slice(start, start + rows)
            p = torch.mm(states[part], weight.t())
            torch.softmax(p, -1, out=p)
            p_chosen = p.gather(1, words[part, None])[:, 0]
            log_sum[part] = z_chosen[part] - p_chosen.log()
            # Where p is rounded to nothing its logarithm is lost: rare, so the long way will do.
            if (far := p_chosen < nothing).any():
                log_sum[part][far] = torch.mm(states[part][far], weight.t()).logsumexp(-1)
            torch.mm(p, weight, out=d_states[part])
            d_weight.addmm_(p.t(), states[part])

        d_states.sub_(chosen, alpha=certain).sub_(total, alpha=spread)
        d_weight.index_add_(0, words, states, alpha=-certain)
        d_weight.sub_(states.sum(0), alpha=spread)
        ctx.save_for_backward(d_states, d_weight)

        surprise = log_sum - z_chosen
        mean_surprise = log_sum - (states @ total) / vocabulary
        return (certain * surprise + smoothing * mean_surprise).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        d_states, d_weight = ctx.saved_tensors
        return d_states * gradient, d_weight * gradient, None, None
