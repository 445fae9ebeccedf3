"""Quantiles and the incomplete beta function, compared with SciPy's."""

import numpy as np
import pytest
from scipy import special, stats

from regard.lab.quantiles import beta_quantile, incomplete_beta, student_quantile


@pytest.mark.parametrize("probability", [0.025, 0.5, 0.9, 0.95, 0.975, 0.995, 0.9995])
def test_students_quantiles(probability: float) -> None:
    freedom = [*range(1, 41), 60, 100, 250, 500, 1000]
    quantiles = [student_quantile(probability, count) for count in freedom]
    expected = stats.t.ppf(probability, freedom)
    np.testing.assert_allclose(quantiles, expected, rtol=1e-9, atol=1e-9)


def test_beta_quantiles() -> None:
    for a, b in [(1, 1), (0.5, 3), (30, 2), (1, 400), (900, 101.5)]:
        for probability in (0.025, 0.5, 0.975):
            expected = stats.beta.ppf(probability, a, b)
            assert beta_quantile(probability, a, b) == pytest.approx(expected, abs=1e-9)


def test_incomplete_beta_function() -> None:
    for a, b in [(0.5, 0.5), (1, 7), (50, 0.5), (500, 200)]:
        for x in (0.0, 1e-9, 0.1, 0.5, 0.71, 0.999, 1.0):
            assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-12)
