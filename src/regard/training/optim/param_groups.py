"""Which parameters move, and how fast beside each other.

training.freeze: [embedding, blocks.0]     these stay as they are, bit by bit
training.layer_lr_decay: 0.8                  each block moves 0.8 times as fast as the one above it
training.lr_multipliers: {output: 10}               and these so many times as fast as they would
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
    """No gradient, so no optimizer state and no weight decay either."""
    names = all_names(model)
    for pattern in patterns:
        for parameter in match_parameters(pattern, names, "training.freeze"):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in names.values()):
        raise ConfigError("training.freeze: nothing is left that could learn; freeze less.")


def lr_multipliers(
    model: nn.Module, layer_lr_decay: float, rates: Mapping[str, float]
) -> dict[nn.Parameter, float]:
    """By what the learning rate of each parameter is multiplied, where it is not 1."""
    found: dict[nn.Parameter, float] = defaultdict(lambda: 1.0)
    if layer_lr_decay != 1:
        for name, depth in _depths([name for name, _ in model.named_parameters()]).items():
            found[model.get_parameter(name)] *= layer_lr_decay**depth
    names = all_names(model)
    for pattern, factor in rates.items():
        # A shared parameter has several names, and is meant once.
        for parameter in set(match_parameters(pattern, names, "training.lr_multipliers")):
            found[parameter] *= factor
    return dict(found)


def _depths(names: Sequence[str]) -> dict[str, int]:
    """How far below the head: a stack's last block 1, its embedding below its first."""
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
    found = {name: _BLOCK.match(name) for name in names}
    return {name: (match[1], int(match[2])) for name, match in found.items() if match}


def set_learning_rates(
    optimizers: Iterable[torch.optim.Optimizer], factor: Mapping[nn.Parameter, float]
) -> None:
    """The peak rate of each group of an optimizer, which is parted where factors differ."""
    for optimizer in optimizers:
        optimizer.param_groups = [
            {**group, "params": members, "peak": group["lr"] * times}
            for group in optimizer.param_groups
            for times, members in _by_factor(group["params"], factor)
        ]


def _by_factor(
    parameters: Iterable[nn.Parameter], factor: Mapping[nn.Parameter, float]
) -> list[tuple[float, list[nn.Parameter]]]:
    members: dict[float, list[nn.Parameter]] = defaultdict(list)
    for parameter in parameters:
        members[factor.get(parameter, 1.0)].append(parameter)
    return sorted(members.items(), key=lambda each: each[0])
