"""Read and write a model's parameters by name. Shared parameters (tied embeddings) appear once."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.errors import RunError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name, detached and on the CPU."""
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


@torch.no_grad()
def set_weights(model: nn.Module, weights: Mapping[str, Tensor], where: str) -> None:
    """Copy `weights` into the model.

    Args:
        where: the file that the weights are from, for the error message.

    Raises:
        RunError: a name or a shape differs.
    """
    parameters = dict(model.named_parameters())
    if differing := sorted(parameters.keys() ^ weights.keys()):
        raise RunError(
            f"{where}: the weights are not those of this model: {differing[0]} is "
            f"{'missing' if differing[0] in parameters else 'not part of it'} "
            f"({len(differing)} such names)."
        )
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise RunError(
                f"{where}: {name} has shape {tuple(weights[name].shape)} and the model needs "
                f"{tuple(parameter.shape)}."
            )
        parameter.copy_(weights[name])
