"""Parameters that are frozen, and learning rates that differ between parameters.

training.freeze: [embedding, blocks.0]     these are not trained and stay bit-identical
training.layer_lr_decay: 0.8               the rate of each block is 0.8 times that of the next
training.lr_multipliers: {output: 10}      the rate of these is multiplied by a factor
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from regard.errors import ConfigError
from regard.models.transfer.names import all_names, match_parameters

_BLOCK = re.compile(r"(.*\bblocks)\.(\d+)\.")


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Freeze the parameters that match: no gradient, no optimizer state, no weight decay."""
    names = all_names(model)
    for pattern in patterns:
        for parameter in match_parameters(pattern, names, "training.freeze"):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in names.values()):
        raise ConfigError("training.freeze: no parameter is left to train; freeze less.")


def lr_multipliers(
    model: nn.Module, layer_lr_decay: float, multipliers: Mapping[str, float]
) -> dict[nn.Parameter, float]:
    """Return the factor of each parameter's learning rate, where it is not 1."""
    factors: dict[nn.Parameter, float] = defaultdict(lambda: 1.0)
    if layer_lr_decay != 1:
        for name, depth in _depths([name for name, _ in model.named_parameters()]).items():
            factors[model.get_parameter(name)] *= layer_lr_decay**depth
    names = all_names(model)
    for pattern, factor in multipliers.items():
        # A shared parameter has several names, and is multiplied once.
        for parameter in set(match_parameters(pattern, names, "training.lr_multipliers")):
            factors[parameter] *= factor
    return dict(factors)


def _depths(names: Sequence[str]) -> dict[str, int]:
    """Return the distance from the head: 1 for a stack's last block, most for its embedding."""
    layers: dict[str, int] = defaultdict(int)
    for stack, block in _blocks(names).values():
        layers[stack] = max(layers[stack], block + 1)
    if not layers:
        raise ConfigError("training.layer_lr_decay: this model has no blocks; leave it out.")
    depths = {name: layers[stack] - block for name, (stack, block) in _blocks(names).items()}
    for stack, count in layers.items():
        embedding = f"{stack.removesuffix('blocks')}embedding."
        depths |= {name: count + 1 for name in names if name.startswith(embedding)}
    return depths


def _blocks(names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return stack and number of the block of each parameter that is in one."""
    matches = {name: _BLOCK.match(name) for name in names}
    return {name: (match[1], int(match[2])) for name, match in matches.items() if match}


def set_learning_rates(
    optimizers: Iterable[torch.optim.Optimizer], factors: Mapping[nn.Parameter, float]
) -> None:
    """Set the peak rate of each parameter group; split groups whose factors differ."""
    for optimizer in optimizers:
        optimizer.param_groups = [
            {**group, "params": members, "peak": group["lr"] * factor}
            for group in optimizer.param_groups
            for factor, members in _by_factor(group["params"], factors)
        ]


def _by_factor(
    parameters: Iterable[nn.Parameter], factors: Mapping[nn.Parameter, float]
) -> list[tuple[float, list[nn.Parameter]]]:
    members: dict[float, list[nn.Parameter]] = defaultdict(list)
    for parameter in parameters:
        members[factors.get(parameter, 1.0)].append(parameter)
    return sorted(members.items(), key=lambda item: item[0])
