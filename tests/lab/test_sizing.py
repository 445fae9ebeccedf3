"""Models of different kinds with equal parameter counts."""

from typing import Any

import pytest

from regard.errors import ConfigError
from regard.lab.sizing import TOLERANCE, sized
from regard.models.base import parameter_count

KINDS: list[dict[str, Any]] = [
    {"kind": "recurrent"},
    {"kind": "recurrent", "cell": "lstm", "layers": 2},
    {"kind": "convolutional", "window": 4, "layers": 2},
    {"kind": "language-model", "heads": 2, "layers": 1},
]


@pytest.mark.parametrize("settings", KINDS, ids=lambda settings: settings["kind"])
@pytest.mark.parametrize("parameters", [150_000, 300_000])
def test_every_kind_is_sized_within_the_tolerance(
    settings: dict[str, Any], parameters: int
) -> None:
    spec = sized(settings, parameters, vocabulary=20, multiple=2)
    assert spec.dim % 2 == 0  # type: ignore[attr-defined]
    assert parameter_count(spec.build(20)) == pytest.approx(parameters, rel=TOLERANCE)


def test_unreachable_parameter_counts_are_refused() -> None:
    with pytest.raises(ConfigError, match="the nearest has"):
        sized(KINDS[0], 1000, vocabulary=20, multiple=32)
