"""Gradients do not flow to later tokens: ∂ logits_t / ∂ x_s = 0 for s > t."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.training.checks.properties.base import EXACT, Check, Property, relative_size
from regard.training.checks.setup import CheckContext, longest_repeated


class Spec(Property):
    order: ClassVar[int] = 3

    def check(self, context: CheckContext) -> Check:
        return Check(
            "gradients do not flow to later tokens",
            "largest gradient of a logit with respect to a later token's embedding",
            _largest_gradient(context),
            EXACT,
            "tokens learn from the tokens they should predict: model.attention or model.position "
            "ignores the causal mask; choose another kind.",
        )


def _largest_gradient(context: CheckContext) -> float | None:
    """Take the gradient of the logits at t of row t, in a batch of equal rows."""
    inputs = longest_repeated(context)
    if inputs.target is None:
        return None
    with _embeddings_as_leaves(context.model, inputs.target) as embeddings:
        logits = inputs.logits(context.model)
    diagonal = logits.diagonal(dim1=0, dim2=1)  # (V, T)
    (gradient,) = torch.autograd.grad((diagonal * torch.randn_like(diagonal)).sum(), embeddings)
    later = torch.ones_like(gradient[..., 0], dtype=torch.bool).triu(1)  # (row, position)
    return relative_size(gradient[later], gradient)


@contextmanager
def _embeddings_as_leaves(model: nn.Module, ids: Tensor) -> Iterator[list[Tensor]]:
    """Within, make the embeddings of just these ids leaves of the graph, and collect them.

    Where source and target are one sequence, the ids are its end.
    """
    leaves: list[Tensor] = []

    def replace(_: nn.Module, arguments: tuple[Any, ...], vectors: Tensor) -> Tensor | None:
        prefix = arguments[0].size(1) - ids.size(1)
        if prefix < 0 or not torch.equal(arguments[0][:, prefix:], ids):
            return None
        leaves.append(vectors[:, prefix:].detach().requires_grad_())
        return torch.cat([vectors[:, :prefix], leaves[-1]], dim=1)

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    hooks = [table.register_forward_hook(replace) for table in tables]
    try:
        yield leaves
    finally:
        for hook in hooks:
            hook.remove()
