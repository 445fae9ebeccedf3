"""Quantiles of Student's t and of the beta distribution, by the incomplete beta function.

I_x(a, b) = ∫₀ˣ tᵃ⁻¹ (1 − t)ᵇ⁻¹ dt / B(a, b) is computed by its continued fraction (Abramowitz and
Stegun 26.5.8), which converges fast for x < (a + 1) / (a + b + 2); for other x, by its symmetry.
"""

import math
from collections.abc import Callable

PRECISION = 1e-15
MAX_TERMS = 10_000


def student_quantile(probability: float, freedom: float) -> float:
    """Return t with P(T ≤ t) = probability, for so many degrees of freedom."""
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    if probability == 0.5:
        return 0.0

    def cumulative(t: float) -> float:
        return 1 - incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2

    high = 1.0
    while cumulative(high) < probability:
        high *= 2
    return _solve(cumulative, probability, 0.0, high)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return x with I_x(a, b) = probability."""
    return _solve(lambda x: incomplete_beta(x, a, b), probability, 0.0, 1.0)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    factor = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    return factor / _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return 1 + d₁ / (1 + d₂ / (1 + …)) as the limit of its convergents, term by term."""
    before, value = (1.0, 0.0), (1.0, 1.0)  # numerators and denominators of two convergents
    for index in range(1, MAX_TERMS):
        m = index // 2
        if index % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        last = value[0] / value[1]
        top, bottom = value[0] + term * before[0], value[1] + term * before[1]
        # Only their ratio matters: divided by the denominator, neither overflows.
        before, value = (value[0] / bottom, value[1] / bottom), (top / bottom, 1.0)
        if abs(value[0] - last) <= PRECISION * abs(value[0]):
            break
    return value[0]


def _solve(increasing: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Return x with increasing(x) = target, by bisection."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if increasing(middle) < target else (low, middle)
