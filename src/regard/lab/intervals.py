"""95 % confidence intervals of means over seeds, ratios and fitted exponents.

By Student's t distribution: with three seeds an interval is wide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# The 97.5 % point of Student's t for 1, 2, 3 … degrees of freedom; beyond them the normal's.
STUDENT: tuple[float, ...] = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL = 1.960


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        half = (self.high - self.low) / 2
        if abs(self.high + self.low - 2 * self.mean) > half / 10:  # asymmetric, as of a ratio
            return f"{self.mean:.3g} ({self.low:.2g} to {self.high:.2g})"
        return f"{self.mean:.3g} ± {half:.2g}" if half else f"{self.mean:.3g}"


def exactly(value: float) -> Interval:
    """Return the interval of a value that was counted or computed, not sampled."""
    return Interval(value, value, value)


def interval(values: Sequence[float]) -> Interval:
    """Return the mean over seeds; the interval of one seed is infinite."""
    mean = float(np.mean(values))
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


def _student(freedom: int) -> float:
    return STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL
