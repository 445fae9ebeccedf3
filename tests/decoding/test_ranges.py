"""Search settings of a wrong type or out of range are refused by name, value and range."""

import math

import numpy as np
import pytest

from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling
from regard.errors import ConfigError

COUNTS = {
    (DecodingConfig, "beam"): "from 1 to 1,000",
    (DecodingConfig, "n_best"): "from 1 to 1,000",
    (DecodingConfig, "beam_groups"): "from 1 to 1,000",
    (DecodingConfig, "no_repeat_ngram"): "0 or more",
    (Sampling, "top_k"): "0 or more",
    (Sampling, "seed"): "from 0 to 18,446,744,073,709,551,615",
}
NUMBERS = {
    (DecodingConfig, "length_penalty"): "from 0 to 10",
    (DecodingConfig, "diversity"): "from 0 to 1e+06",
    (DecodingConfig, "repetition_penalty"): "from 1 to 1,000",
    (Sampling, "temperature"): "from 1e-06 to 1e+06",
    (Sampling, "top_p"): "more than 0 and at most 1",
    (Sampling, "min_p"): "from 0 to 1",
}
NEVER = (None, "5", True, math.nan, math.inf, -math.inf, -1, [1])


def assert_refused(settings: type, name: str, value: object, range_: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings(**{name: value})
    message = str(error.value)
    assert message.startswith(f"{name} is {value!r}; it must be")
    assert range_ in message


@pytest.mark.parametrize(("setting", "range_"), COUNTS.items())
def test_counts_are_integers_in_their_range(setting: tuple[type, str], range_: str) -> None:
    for value in (*NEVER, 2.0, 1.5):
        assert_refused(*setting, value, range_)


@pytest.mark.parametrize(("setting", "range_"), NUMBERS.items())
def test_numbers_are_finite_and_in_their_range(setting: tuple[type, str], range_: str) -> None:
    for value in (*NEVER, 1e300):
        assert_refused(*setting, value, range_)


@pytest.mark.parametrize("name", ["early_stopping", "return_scores"])
def test_switches_are_true_or_false(name: str) -> None:
    for value in (1, "yes", None):
        assert_refused(DecodingConfig, name, value, "True or False")


def test_values_that_would_take_all_memory_are_refused() -> None:
    assert_refused(DecodingConfig, "beam", 10**9, "1,000")
    with pytest.raises(ConfigError, match=r"beam is a number with thousands of digits; "):
        DecodingConfig(beam=10**10_000)


def test_combinations_are_refused() -> None:
    with pytest.raises(ConfigError, match="beam of 4 cannot be divided into 3 groups"):
        DecodingConfig(beam=4, beam_groups=3)
    with pytest.raises(ConfigError, match="widen the beam to 3"):
        DecodingConfig(beam=2, n_best=3)
    with pytest.raises(ConfigError, match="sampling and beam search exclude"):
        DecodingConfig(beam=2, sampling=Sampling())
    with pytest.raises(ConfigError, match="sampling and return_scores exclude"):
        DecodingConfig(return_scores=True, sampling=Sampling())
    with pytest.raises(ConfigError, match=r"sampling is 0\.8; it must be a Sampling"):
        DecodingConfig(sampling=0.8)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    config = DecodingConfig(beam=np.int64(4), length_penalty=np.float32(0.5))  # type: ignore[arg-type]
    assert config.beam == 4
    assert Sampling(temperature=1, top_p=1).top_p == 1
