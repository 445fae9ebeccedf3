"""95 % confidence intervals of means over seeds, ratios, proportions and fitted exponents.

By Student's t distribution: with three seeds an interval is wide. A proportion is counted on a
finite test, so its interval is never narrower than that of the counts (Clopper and Pearson 1934):
seeds that happen to agree have no interval of width 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from regard.lab.quantiles import beta_quantile, student_quantile

TAIL = 0.025  # probability beyond either end

T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "–"
        if math.isinf(self.low):
            return f"{self.mean:.3g}, one seed"
        if math.isinf(self.high):
            return f"at least {self.low:.3g}"
        half = (self.high - self.low) / 2
        if abs(self.high + self.low - 2 * self.mean) > half / 10:  # asymmetric, as of a ratio
            return f"{self.mean:.3g} ({_ends(self.low, self.high)})"
        return f"{self.mean:.3g} ± {half:.2g}" if half else f"{self.mean:.3g}"


def _ends(low: float, high: float) -> str:
    """Return both ends with so many digits that they differ."""
    texts = ((f"{low:.{digits}g}", f"{high:.{digits}g}") for digits in range(2, 17))
    return next(f"{a} to {b}" for a, b in texts if a != b)


def exactly(value: float) -> Interval:
    """Return the interval of a value that was counted or computed, not sampled."""
    return Interval(value, value, value)


def interval(values: Sequence[float]) -> Interval:
    """Return the mean over seeds; the interval of one seed is infinite."""
    mean = float(np.mean(values)) if len(values) else float("nan")
    if len(values) < 2:
        return Interval(mean, -np.inf, np.inf)
    half = _student(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return Interval(mean, mean - half, mean + half)


def difference(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the mean of first − second, paired by seed."""
    return interval([a - b for a, b in zip(first, second, strict=True)])


def ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the geometric mean of first / second, paired; all values are positive."""
    logs = interval([float(np.log(a / b)) for a, b in zip(first, second, strict=True)])
    return Interval(*(float(np.exp(log)) for log in (logs.mean, logs.low, logs.high)))


def exponent(sizes: Sequence[float], values: Sequence[float]) -> Interval:
    """Fit p in value ≈ c · sizeᵖ by least squares on logarithms."""
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float))
    x = x - x.mean()
    slope = float((x * y).sum() / (x * x).sum())
    if len(x) < 3:
        return Interval(slope, -np.inf, np.inf)
    residual = y - y.mean() - slope * x
    error = float(((residual**2).sum() / (len(x) - 2) / (x * x).sum()) ** 0.5)
    half = _student(len(x) - 2) * error
    return Interval(slope, slope - half, slope + half)


def proportion(values: Sequence[float], tested: int) -> Interval:
    """Return the mean of a share over seeds; `tested` counts the distinct test cases of all seeds.

    Either end is the farther of those over seeds and of the counts.
    """
    return wider(interval(values), counted(float(np.mean(values)), tested))


def proportion_difference(first: Sequence[float], second: Sequence[float], tested: int) -> Interval:
    """Return the mean of the difference of two shares, paired by seed, on the same test cases.

    The interval of the counts is that of two independent shares (Newcombe 1998, method 10, with
    Clopper and Pearson's ends), which is too wide rather than too narrow for the same cases.
    """
    a, b = (counted(float(np.mean(values)), tested) for values in (first, second))
    mean = a.mean - b.mean
    below = ((a.mean - a.low) ** 2 + (b.high - b.mean) ** 2) ** 0.5
    above = ((a.high - a.mean) ** 2 + (b.mean - b.low) ** 2) ** 0.5
    return wider(difference(first, second), Interval(mean, mean - below, mean + above))


def counted(share: float, tested: int) -> Interval:
    """Return the interval of a share of so many independent cases, by Clopper and Pearson."""
    count = share * tested
    low = beta_quantile(TAIL, count, tested - count + 1) if count > 0 else 0.0
    high = beta_quantile(1 - TAIL, count + 1, tested - count) if count < tested else 1.0
    return Interval(share, low, high)


def wider(first: Interval, second: Interval) -> Interval:
    """Return the first estimate with the farther of either end."""
    return Interval(first.mean, min(first.low, second.low), max(first.high, second.high))


def select_by_others(choices: Mapping[T, Sequence[float]]) -> list[T]:
    """Return for each seed the choice with the lowest mean over the other seeds.

    What is judged on a seed is then not selected by it.
    """
    seeds = len(next(iter(choices.values())))

    def mean_of_others(choice: T, seed: int) -> float:
        others = [value for index, value in enumerate(choices[choice]) if index != seed]
        return float(np.mean(others or choices[choice]))

    return [min(choices, key=lambda choice: mean_of_others(choice, s)) for s in range(seeds)]


@cache
def _student(freedom: int) -> float:
    return student_quantile(1 - TAIL, freedom)
