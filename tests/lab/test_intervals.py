"""Coverage and text of confidence intervals, and outcomes of criteria."""

import numpy as np
import pytest
from scipy import stats

from regard.lab.claim import Criterion
from regard.lab.intervals import (
    Interval,
    counted,
    difference,
    exactly,
    exponent,
    interval,
    proportion,
    proportion_difference,
    ratio,
    select_by_others,
)


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


@pytest.mark.parametrize("seeds", [31, 60, 1001])
def test_interval_of_many_seeds_is_by_students_t(seeds: int) -> None:
    values = np.random.default_rng(seeds).normal(size=seeds)
    expected = stats.t.interval(0.95, seeds - 1, values.mean(), stats.sem(values))
    measured = interval(values.tolist())
    assert (measured.low, measured.high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("successes", "tested"), [(0, 30), (3, 30), (15, 30), (400, 400)])
def test_interval_of_counts_is_that_of_clopper_and_pearson(successes: int, tested: int) -> None:
    expected = stats.binomtest(successes, tested).proportion_ci(method="exact")
    measured = counted(successes / tested, tested)
    assert (measured.low, measured.high) == pytest.approx(tuple(expected), abs=1e-9)


def test_equal_seeds_have_the_interval_of_their_counts() -> None:
    assert interval([1.0, 1.0, 1.0]) == exactly(1.0)
    assert proportion([1.0, 1.0, 1.0], 30) == counted(1.0, 30)
    assert Criterion("", at_least=0.95).outcome(proportion([1.0] * 3, 30)) == "unclear"
    assert Criterion("", at_least=0.95).outcome(proportion([1.0] * 3, 300)) == "holds"


def test_seeds_that_differ_more_than_their_counts_have_the_interval_over_seeds() -> None:
    assert proportion([0.2, 0.5, 0.8], 10**6) == interval([0.2, 0.5, 0.8])


def test_difference_of_proportions_covers_it_in_95_percent_or_more() -> None:
    rng, tested = np.random.default_rng(0), 50
    first, second = (rng.binomial(tested, p, (2000, 1)) / tested for p in (0.9, 0.7))
    covered = []
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        measured = proportion_difference(a * 3, b * 3, tested)  # three seeds that agree
        covered.append(measured.low <= 0.2 <= measured.high)
    assert 0.95 < np.mean(covered) < 0.995


def test_one_seed_passes_no_criterion_about_a_share_or_a_difference() -> None:
    for measured in (proportion([1.0], 1000), proportion_difference([1.0], [0.0], 1000)):
        assert Criterion("", at_least=0.0).outcome(measured) == "unclear"
        assert Criterion("", at_most=1.0).outcome(measured) == "unclear"


def test_a_choice_is_selected_by_the_other_seeds() -> None:
    losses = {"lucky once": [0.0, 3.0, 3.0], "steady": [2.0, 2.0, 2.0]}
    assert select_by_others(losses) == ["steady", "lucky once", "lucky once"]


def test_what_holds_by_construction_is_not_judged() -> None:
    criterion = Criterion("", at_least=1.0, by_construction="it is 1")
    assert criterion.outcome(exactly(1.0)) == criterion.outcome(exactly(0.0)) == "not judged"


def test_text_of_an_interval() -> None:
    assert str(exactly(2)) == "2"
    assert str(Interval(2.0, 1.5, 2.5)) == "2 ± 0.5"
    assert str(ratio([1.0, 4.0, 2.0], [1.0, 1.0, 1.0])) == "2 (0.36 to 11)"
    assert str(counted(1.0, 3000)) == "1 (0.999 to 1)"
    assert str(interval([0.25])) == "0.25, one seed"
    assert str(interval([])) == "–"
    assert str(Interval(65.0, 65.0, np.inf)) == "at least 65"


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
