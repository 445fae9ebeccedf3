"""The recipe's `training` section: steps, budget and refusals."""

from typing import Any

import pytest

from regard.config import plain, validate
from regard.errors import ConfigError
from regard.training.config import TrainingSpec


def training(content: dict[str, Any]) -> TrainingSpec:
    return validate(TrainingSpec, content, "recipe")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20min", 1200),
        ("90s", 90),
        ("90 s", 90),
        ("1.5h", 5400),
        (".5h", 1800),
        ("2d", 172_800),
        ("30", 30),
        ("3m", 180),
        (45, 45),
        (0.5, 0.5),
    ],
)
def test_budget_formats(text: str | float, seconds: float) -> None:
    assert training({"budget": text}).budget == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "20 minutes", "1.2.3s", ".", ".s", "-5s", "1e3s", "5S", "min", "٣s"]
)
def test_invalid_budgets_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^recipe: budget: not a time; write 90s, 20min or 1.5h"):
        training({"budget": text})


@pytest.mark.parametrize("content", [{"budget": "0s"}, {"budget": -3}, {"steps": 0}])
def test_a_budget_or_number_of_steps_must_be_positive(content: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="greater than 0"):
        training(content)


def test_steps_and_a_budget_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="steps and budget are both given"):
        training({"steps": 10, "budget": "1min"})


@pytest.mark.parametrize("content", [{}, {"steps": None}, {"steps": None, "budget": None}])
def test_the_default_budget_is_twenty_minutes(content: dict[str, Any]) -> None:
    spec = training(content)
    assert (spec.steps, spec.budget) == (None, 1200)


def test_a_spec_survives_writing_and_reading() -> None:
    for content in ({"steps": 7}, {"budget": "1.5h"}, {}):
        spec = training(content)
        assert training(plain(spec)) == spec


def test_progress_is_the_fraction_of_steps_or_of_time() -> None:
    by_steps, by_time = training({"steps": 40}), training({"budget": "40s"})
    assert [by_steps.progress(step, 1e9) for step in (0, 10, 40, 50)] == [0, 0.25, 1, 1]
    assert [by_time.progress(10**9, seconds) for seconds in (0, 10, 40, 50)] == [0, 0.25, 1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"optimzer": "adamw"}, "did you mean 'optimizer'"),
        ({"optimiser": "adamw"}, "the key 'optimiser' was renamed to 'optimizer'"),
        ({"schedule": "linaer"}, "did you mean 'linear'"),
        ({"evaluation": {"every": 0}}, "evaluation.every"),
        ({"ema_decay": 1.0}, "ema_decay"),
    ],
)
def test_errors_name_the_key(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        training({"steps": 1, **content})
