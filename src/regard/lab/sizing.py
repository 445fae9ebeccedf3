"""Language models of different kinds are compared at as many parameters: sizes that give them."""

from collections.abc import Mapping
from typing import Any

from regard.errors import ConfigError
from regard.models.base import ModelSpec, parameter_count

WITHIN = 0.025  # of the number asked for, either way: any two differ by 5 % at most
FFN_RATIO = 2  # a feed-forward network's hidden size, over D


def sized(
    settings: Mapping[str, Any], parameters: int, vocabulary: int, multiple: int = 1
) -> ModelSpec:
    """The spec of these settings whose D, so many times a whole number, comes nearest to so many
    parameters. A Transformer's feed-forward networks grow with D."""
    low, high = 1, 2  # in multiples; more parameters with each
    while _count(settings, high * multiple, vocabulary) < parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fewer = _count(settings, middle * multiple, vocabulary) < parameters
        low, high = (middle, high) if fewer else (low, middle)
    counts = {each: _count(settings, each * multiple, vocabulary) for each in (low, high)}
    best = min(counts, key=lambda each: abs(counts[each] - parameters))
    if abs(counts[best] / parameters - 1) > WITHIN:
        raise ConfigError(
            f"no size of a {settings['kind']} has about {parameters:,} parameters: the nearest "
            f"has {counts[best]:,}; choose another number of parameters."
        )
    return _spec(settings, best * multiple)


def _spec(settings: Mapping[str, Any], dim: int) -> ModelSpec:
    grown = {"ffn_dim": FFN_RATIO * dim} if settings["kind"] == "language-model" else {}
    spec = ModelSpec.model_validate({**settings, "dim": dim, **grown})
    return spec.for_capability("causal-lm")


def _count(settings: Mapping[str, Any], dim: int, vocabulary: int) -> int:
    return parameter_count(_spec(settings, dim).build(vocabulary))
