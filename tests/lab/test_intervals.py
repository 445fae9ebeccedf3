"""Coverage and text of confidence intervals, and outcomes of criteria."""

import numpy as np
import pytest

from regard.lab.claim import Criterion
from regard.lab.intervals import Interval, difference, exactly, exponent, interval, ratio


@pytest.mark.parametrize("count", [2, 3, 10, 60])
def test_interval_of_a_mean_covers_it_in_95_percent(count: int) -> None:
    draws = np.random.default_rng(0).normal(5.0, 2.0, (4000, count))
    intervals = [interval(row.tolist()) for row in draws]
    covered = np.mean([measured.low <= 5.0 <= measured.high for measured in intervals])
    assert 0.935 < covered < 0.965


def test_interval_of_an_exponent_covers_it_in_95_percent() -> None:
    rng, sizes = np.random.default_rng(0), np.array([64, 128, 256, 512, 1024])
    covered = []
    for _ in range(2000):
        values = 3 * sizes**1.5 * np.exp(rng.normal(0, 0.1, 5))
        fitted = exponent(sizes.tolist(), values.tolist())
        covered.append(fitted.low <= 1.5 <= fitted.high)
    assert 0.935 < np.mean(covered) < 0.965


def test_text_of_an_interval() -> None:
    assert str(exactly(2)) == "2"
    assert str(Interval(2.0, 1.5, 2.5)) == "2 ± 0.5"
    assert str(ratio([1.0, 4.0, 2.0], [1.0, 1.0, 1.0])) == "2 (0.36 to 11)"


def test_one_seed_has_an_infinite_interval() -> None:
    assert interval([1.0]) == Interval(1.0, -np.inf, np.inf)
    assert Criterion("", at_least=0.0).outcome(interval([1.0])) == "unclear"


def test_paired_differences_and_ratios() -> None:
    assert difference([1.0, 5.0, 9.0], [0.0, 4.0, 8.0]) == exactly(1.0)
    assert ratio([2.0, 8.0], [1.0, 4.0]) == Interval(*[pytest.approx(2.0)] * 3)


@pytest.mark.parametrize(
    ("measured", "outcome"),
    [
        (Interval(2, 1.5, 2.5), "holds"),
        (Interval(1, 0.5, 1.5), "unclear"),
        (Interval(0, -0.5, 0.5), "fails"),
        (Interval(4, 3.5, 4.5), "fails"),
        (Interval(3, 2.5, 3.5), "unclear"),
    ],
)
def test_outcome_by_interval_and_threshold(measured: Interval, outcome: str) -> None:
    assert Criterion("", at_least=1.0, at_most=3.0).outcome(measured) == outcome
