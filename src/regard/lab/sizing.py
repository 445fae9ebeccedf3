"""Model sizes with equal parameter counts, to compare kinds of language models."""

from collections.abc import Mapping
from typing import Any

from regard.errors import ConfigError
from regard.models.base import ModelSpec, parameter_count

TOLERANCE = 0.025  # relative; any two models differ by 5 % at most
FFN_RATIO = 2  # a feed-forward network's hidden size, over D


def sized(
    settings: Mapping[str, Any], parameters: int, vocabulary: int, multiple: int = 1
) -> ModelSpec:
    """Return the spec whose D, a multiple of `multiple`, comes nearest to a parameter count.

    The feed-forward size of a Transformer grows with D. Raises ConfigError where no D is within
    the tolerance.
    """
    low, high = 1, 2  # in multiples
    while _count(settings, high * multiple, vocabulary) < parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fewer = _count(settings, middle * multiple, vocabulary) < parameters
        low, high = (middle, high) if fewer else (low, middle)
    counts = {size: _count(settings, size * multiple, vocabulary) for size in (low, high)}
    best = min(counts, key=lambda size: abs(counts[size] - parameters))
    if abs(counts[best] / parameters - 1) > TOLERANCE:
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
