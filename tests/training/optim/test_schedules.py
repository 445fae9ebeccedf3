"""How the learning rate moves: each kind against its equation, and what all kinds promise."""

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


def over(spec: ScheduleSpec, steps: int) -> list[float]:
    """The factor at each step of a training of so many."""
    return [spec.factor(step, (step - 1) / steps) for step in range(1, steps + 1)]


@pytest.mark.parametrize("kind", KINDS)
@given(step=st.integers(1, 10**7), progress=st.floats(0, 1), warmup=st.sampled_from([1, 50, 4000]))
def test_a_factor_is_never_negative_nor_above_one(
    kind: str, step: int, progress: float, warmup: int
) -> None:
    assert 0 <= schedule(kind, warmup=warmup).factor(step, progress) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_is_a_jump(kind: str) -> None:
    factors = over(schedule(kind, warmup=100), 1000)
    assert 0 < factors[0] <= 0.02
    assert max(abs(later - earlier) for earlier, later in pairwise(factors)) <= 0.011


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"inverse-sqrt"}))
def test_without_warm_up_the_first_step_is_the_largest(kind: str) -> None:
    factors = over(schedule(kind, warmup=0), 100)
    assert factors[0] == max(factors) == 1


def test_that_of_2017_is_its_equation() -> None:
    dim, warmup = 512, 4000
    spec = schedule("inverse-sqrt", warmup=warmup)
    peak = dim**-0.5 * warmup**-0.5
    for step in (1, 10, 3999, 4000, 4001, 10_000, 300_000):
        theirs = dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert peak * spec.factor(step, 0.5) == pytest.approx(theirs, rel=1e-12)


def test_linear_goes_up_then_down_to_zero() -> None:
    factors = over(schedule("linear", warmup=9), 100)
    assert factors[0] == pytest.approx(0.1)
    assert factors[49] == pytest.approx(0.51)
    assert factors[99] == pytest.approx(0.01)
    assert all(later < earlier for earlier, later in pairwise(factors[10:]))
    assert schedule("linear").factor(10**6, 1.0) == 0


def test_cosine_goes_down_to_its_floor() -> None:
    spec = schedule("cosine", warmup=0, floor=0.1)
    assert spec.factor(10, 0.0) == pytest.approx(1)
    assert spec.factor(10, 0.5) == pytest.approx(0.55)
    assert spec.factor(10, 1 / 3) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 3)) / 2)
    assert spec.factor(10, 1.0) == pytest.approx(0.1)
    assert schedule("cosine").factor(10**6, 1.0) == pytest.approx(0)


def test_constant_stays() -> None:
    spec = schedule("constant", warmup=3)
    assert [spec.factor(step, 0.0) for step in range(1, 6)] == [0.25, 0.5, 0.75, 1, 1]
    assert spec.factor(10**6, 1.0) == 1
