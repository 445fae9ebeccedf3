"""Read and write a model's parameters by name. Shared parameters (tied embeddings) appear once."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from regard.config import shortened
from regard.errors import RunError
from regard.models.base import ModelSpec
from regard.models.meta import on_meta

SPARE = 8  # parameters that may be registered for each that the model ends with: tied, replaced


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name, detached and on the CPU."""
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


def build_with_weights(
    spec: ModelSpec, vocabulary: int, weights: Mapping[str, Tensor], where: str
) -> nn.Module:
    """Build a model that has `weights` as its parameters, without a copy of them.

    It is built on the meta device, so that nothing is allocated before names and shapes agree.

    Args:
        where: the file that the weights are from, for the error message.

    Raises:
        RunError: a name or a shape differs, or a weight is not finite.
    """
    model = build_on_meta(spec, vocabulary, len(weights), where)
    parameters = dict(model.named_parameters())
    check_weights(parameters, weights, where)
    assigned = {
        id(parameter): nn.Parameter(weights[name].to(parameter.dtype))
        for name, parameter in parameters.items()
    }
    for module in model.modules():
        own = list(module.named_parameters(recurse=False, remove_duplicate=False))
        for name, parameter in own:  # shared parameters stay shared
            setattr(module, name, assigned[id(parameter)])
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            module.compute_buffers()  # type: ignore[operator]
    return model


def build_on_meta(spec: ModelSpec, vocabulary: int, tensors: int, where: str) -> nn.Module:
    """Build the model without memory for its parameters.

    Args:
        tensors: number of tensors in the file; a model with many more is refused.
        where: the file, for the error message.

    Raises:
        RunError: the model has many more tensors, or sizes that no tensor can have.
    """
    remaining = SPARE * (tensors + 1)

    def count(*_: object) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise RunError(
                f"{where}: has {tensors:,} tensors and the model needs many more; they do not "
                f"belong together: restore both files."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        with on_meta():
            return spec.build(vocabulary)
    except (RuntimeError, OverflowError, TypeError, ValueError) as error:  # of sizes beyond 2⁶³
        raise RunError(
            f"{where}: the model cannot be built ({shortened(str(error), 200)}); check the sizes "
            f"in its description."
        ) from None
    finally:
        hook.remove()


@torch.no_grad()
def set_weights(model: nn.Module, weights: Mapping[str, Tensor], where: str) -> None:
    """Copy `weights` into the model.

    Args:
        where: the file that the weights are from, for the error message.

    Raises:
        RunError: a name or a shape differs.
    """
    parameters = dict(model.named_parameters())
    check_weights(parameters, weights, where)
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])


def check_weights(
    parameters: Mapping[str, Tensor], weights: Mapping[str, Tensor], where: str
) -> None:
    """Raise RunError if names or shapes differ, or if a weight is not finite."""
    if differing := sorted(parameters.keys() ^ weights.keys()):
        raise RunError(
            f"{where}: the weights are not those of this model: {shortened(differing[0])} is "
            f"{'missing' if differing[0] in parameters else 'not part of it'} "
            f"({len(differing)} such names)."
        )
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise RunError(
                f"{where}: {name} has shape {tuple(weights[name].shape)} and the model needs "
                f"{tuple(parameter.shape)}."
            )
        if not _is_finite(weights[name]):
            raise RunError(
                f"{where}: {name} has values that are not finite (NaN or infinity); the model was "
                f"damaged, or diverged in training: use an earlier one."
            )


def _is_finite(tensor: Tensor) -> bool:
    # The extremes are not finite if any value is not, and need no memory.
    return not tensor.numel() or all(bool(torch.isfinite(end)) for end in tensor.aminmax())
