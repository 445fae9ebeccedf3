"""How much each word of a text matters to what is said of it: the gradient at its embedding."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def by_place(model: nn.Module, ids: Tensor, said: Callable[[Tensor], Tensor]) -> Tensor:
    """The size (B, T) of the gradient of what is `said`, a number made of a language model's
    logits (B, T, V), at what the embedding gives for each of ids (B, T)."""
    given: list[Tensor] = []

    def watch(_: nn.Module, __: object, embedded: Tensor) -> Tensor:
        given.append(embedded.detach().requires_grad_())
        return given[0]

    hook = model.get_submodule("decoder.embedding").register_forward_hook(watch)
    try:
        number = said(model(ids))
    finally:
        hook.remove()
    (gradient,) = torch.autograd.grad(number, given)
    sizes: Tensor = gradient.norm(dim=-1)
    return sizes
