"""Learning rate schedules against their equations, and properties of all kinds."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import kinds, validate
from regard.training.optim.schedules.base import ScheduleSpec

KINDS = kinds("regard.training.optim.schedules")


def schedule(kind: str, **settings: float) -> ScheduleSpec:
    return validate(ScheduleSpec, {"kind": kind, **settings}, "recipe")


def factors_over(spec: ScheduleSpec, steps: int) -> list[float]:
    """Return the factor at each step of a training."""
    return [spec.factor(step, (step - 1) / steps) for step in range(1, steps + 1)]


@pytest.mark.parametrize("kind", KINDS)
@given(step=st.integers(1, 10**7), progress=st.floats(0, 1), warmup=st.sampled_from([1, 50, 4000]))
def test_factors_are_between_zero_and_one(
    kind: str, step: int, progress: float, warmup: int
) -> None:
    assert 0 <= schedule(kind, warmup=warmup).factor(step, progress) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_factors_change_gradually(kind: str) -> None:
    factors = factors_over(schedule(kind, warmup=100), 1000)
    assert 0 < factors[0] <= 0.02
    assert max(abs(later - earlier) for earlier, later in pairwise(factors)) <= 0.011


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"inverse-sqrt"}))
def test_without_warmup_the_first_factor_is_the_largest(kind: str) -> None:
    factors = factors_over(schedule(kind, warmup=0), 100)
    assert factors[0] == max(factors) == 1


def test_inverse_sqrt_matches_the_equation_of_2017() -> None:
    dim, warmup = 512, 4000
    spec = schedule("inverse-sqrt", warmup=warmup)
    peak = dim**-0.5 * warmup**-0.5
    for step in (1, 10, 3999, 4000, 4001, 10_000, 300_000):
        expected = dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert peak * spec.factor(step, 0.5) == pytest.approx(expected, rel=1e-12)


def test_linear_rises_and_falls_to_zero() -> None:
    factors = factors_over(schedule("linear", warmup=9), 100)
    assert factors[0] == pytest.approx(0.1)
    assert factors[49] == pytest.approx(0.51)
    assert factors[99] == pytest.approx(0.01)
    assert all(later < earlier for earlier, later in pairwise(factors[10:]))
    assert schedule("linear").factor(10**6, 1.0) == 0


def test_cosine_falls_to_its_floor() -> None:
    spec = schedule("cosine", warmup=0, floor=0.1)
    assert spec.factor(10, 0.0) == pytest.approx(1)
    assert spec.factor(10, 0.5) == pytest.approx(0.55)
    assert spec.factor(10, 1 / 3) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 3)) / 2)
    assert spec.factor(10, 1.0) == pytest.approx(0.1)
    assert schedule("cosine").factor(10**6, 1.0) == pytest.approx(0)


def test_constant_stays_at_one_after_warmup() -> None:
    spec = schedule("constant", warmup=3)
    assert [spec.factor(step, 0.0) for step in range(1, 6)] == [0.25, 0.5, 0.75, 1, 1]
    assert spec.factor(10**6, 1.0) == 1


def test_warmup_stable_decay_is_constant_until_the_decay() -> None:
    spec = schedule("warmup-stable-decay", warmup=1, decay=0.25)
    assert [spec.factor(step, 0.0) for step in (1, 2, 3)] == [0.5, 1, 1]
    assert spec.factor(10, 0.75) == 1
    assert spec.factor(10, 0.875) == pytest.approx(0.5)
    assert spec.factor(10, 1.0) == 0
