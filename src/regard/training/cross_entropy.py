"""Cross-entropy over a large vocabulary with label smoothing, in slices that fit the CPU cache.

For hidden states h (N, D), output weights W (V, D) and labels y (N,):

    z = h Wᵀ        p = softmax(z)        q = (1 − ε) onehot(y) + ε/V       (Szegedy et al. 2016)
    loss = Σ −q · log p                   ∂loss/∂z = p − q

The logits of a batch are by far its largest tensor. Computed at once they pass through memory about
ten times; here a slice of rows is multiplied, turned into p, and used at once for both products of
the backward pass. The two terms of q are of rank one or have one entry a row, so they never touch
the slice.

Under autocast both factors of every product are rounded to bfloat16, once; softmax, loss and sums
over slices stay in float32.
"""

from typing import Any

import torch
from torch import Tensor

SLICE = 1 << 21  # numbers in a slice of logits: 8 MB in float32


def cross_entropy(states: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Return the summed loss of labels (N,) given states (N, D) and output weights (V, D)."""
    device = states.device.type
    factors = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    with torch.autocast(device, enabled=False):
        loss: Tensor = _SlicedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            states.to(weight.dtype), weight, labels, smoothing, factors or weight.dtype
        )
    return loss


class _SlicedCrossEntropy(torch.autograd.Function):
    """Compute the gradients in the forward pass, where the slice is in the cache."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        labels: Tensor,
        smoothing: float,
        factors: torch.dtype,
    ) -> Tensor:
        vocabulary = weight.size(0)
        on_label, on_all = 1 - smoothing, smoothing / vocabulary
        label_weights = weight.index_select(0, labels)  # (N, D)
        total = weight.sum(0)  # (D,): h · total is the sum of a row of logits
        z_label = (states * label_weights).sum(-1)

        h, w = states.to(factors), weight.to(factors)
        d_states = torch.empty_like(states)
        d_weight = torch.zeros_like(weight)
        log_sum = torch.empty_like(z_label)  # log Σ exp z
        tiny = torch.finfo(states.dtype).tiny
        rows = max(1, SLICE // vocabulary)
        for start in range(0, states.size(0), rows):
            part = slice(start, start + rows)
            p = torch.mm(h[part], w.t()).softmax(-1, dtype=states.dtype)
            p_label = p.gather(1, labels[part, None])[:, 0]
            log_sum[part] = z_label[part] - p_label.log()
            # Where p underflows, log p comes from the logits: rare, so its cost does not matter.
            if (underflow := p_label < tiny).any():
                log_sum[part][underflow] = torch.mm(states[part][underflow], weight.t()).logsumexp(
                    -1
                )
            p = p.to(factors)
            d_states[part] = torch.mm(p, w)
            d_weight += torch.mm(p.t(), h[part])

        d_states.sub_(label_weights, alpha=on_label).sub_(total, alpha=on_all)
        d_weight.index_add_(0, labels, states, alpha=-on_label)
        d_weight.sub_(states.sum(0), alpha=on_all)
        ctx.save_for_backward(d_states, d_weight)

        label_loss = log_sum - z_label
        mean_loss = log_sum - (states @ total) / vocabulary
        return (on_label * label_loss + smoothing * mean_loss).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        d_states, d_weight = ctx.saved_tensors
        return d_states * gradient, d_weight * gradient, None, None, None
