"""Gradient norms at the embedding of each token."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def by_position(model: nn.Module, ids: Tensor, output: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient norms (B, T) of `output` at the embeddings of ids (B, T).

    `output` maps the logits (B, T, V) of a language model to a number.
    """
    embeddings: list[Tensor] = []

    def detach(_: nn.Module, __: object, embedded: Tensor) -> Tensor:
        embeddings.append(embedded.detach().requires_grad_())
        return embeddings[0]

    hook = model.get_submodule("decoder.embedding").register_forward_hook(detach)
    try:
        number = output(model(ids))
    finally:
        hook.remove()
    (gradient,) = torch.autograd.grad(number, embeddings)
    norms: Tensor = gradient.norm(dim=-1)
    return norms
