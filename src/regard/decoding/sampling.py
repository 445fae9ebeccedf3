"""Sampling: draw each token from the model's distribution, or from its most likely part.

    p ∝ exp(z / temperature), then in this order
    top_k    the k most likely tokens                                     (Fan et al. 2018)
    top_p    the smallest set of tokens with total probability ≥ p        (Holtzman et al. 2020)
    min_p    tokens at least min_p times as likely as the most likely     (Nguyen et al. 2024)

Random numbers are a function of (seed, row number, step): a row gets the same output alone and in
any batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.decoding.logits_processors import require_finite
from regard.decoding.ranges import check_count, check_number
from regard.engine.numerics import Ids, Scores, softmax


@dataclass(frozen=True)
class Sampling:
    """Settings of sampling; invalid ones raise ConfigError.

    Args:
        temperature: Divides the logits, from 0.000001 to 1,000,000; below 1 favors likely tokens
            (default: 1.0).
        top_k: Sample from the k most likely tokens; 0 means all (default: 0).
        top_p: Sample from the smallest set of tokens with this total probability, more than 0 and
            at most 1 (default: 1.0).
        min_p: Drop tokens less than min_p times as likely as the most likely, from 0 to 1
            (default: 0.0).
        seed: Random seed, 0 or more; the same seed gives the same text (default: 0).

    Raises:
        ConfigError: A setting is out of its range.

    Example:
        >>> import regard
        >>> model = regard.load_language_model("runs/proverbs")
        >>> sampling = regard.Sampling(temperature=0.8, top_p=0.95, seed=1)
        >>> decoding = regard.DecodingConfig(sampling=sampling)
        >>> model.generate("a", 8, decoding) == model.generate("a", 8, decoding)
        True
    """

    temperature: float = 1.0
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 1e-6, 1e6)
        check_count("top_k", self.top_k, 0)
        check_number("top_p", self.top_p, 0, 1, above_least=True)
        check_number("min_p", self.min_p, 0, 1)
        check_count("seed", self.seed, 0, 2**64 - 1)

    def distribution(self, logits: Scores) -> Scores:
        """Return the probabilities (R, V) to sample from, given logits (R, V).

        Args:
            logits: Logits of R rows over V tokens.

        Example:
            >>> import numpy, regard
            >>> probs = regard.Sampling(top_k=2).distribution(numpy.array([[3.0, 2.0, 1.0]]))
            >>> probs[0].round(3).tolist()
            [0.731, 0.269, 0.0]
        """
        logits = np.asarray(logits, np.float64) / self.temperature
        if 0 < self.top_k < (size := logits.shape[-1]):
            least = np.partition(logits, size - self.top_k)[:, size - self.top_k, None]
            logits = np.where(logits < least, -math.inf, logits)
        probs = softmax(logits)
        require_finite(probs)
        if self.top_p < 1:
            probs = _renormalize(probs, _nucleus(probs, self.top_p))
        if self.min_p > 0:
            probs = _renormalize(probs, probs >= self.min_p * probs.max(-1, keepdims=True))
        return probs

    def __call__(self, logits: Scores, rows: Sequence[int], step: int | Sequence[int]) -> Ids:
        """Draw a token for each row (R,); `step` is one number for all rows, or one for each."""
        steps = [step] * len(rows) if isinstance(step, int) else step
        probs = self.distribution(logits)
        uniforms = [self.uniform(row, own) for row, own in zip(rows, steps, strict=True)]
        return draw(probs, np.array(uniforms))

    def uniform(self, row: int, step: int, purpose: int = 0) -> float:
        """Return a number from [0, 1) that depends only on the seed and the arguments.

        Args:
            row: Number of the row.
            step: Number of the token.
            purpose: Distinguishes independent draws for one token (default: 0).

        Example:
            >>> import regard
            >>> regard.Sampling(seed=1).uniform(0, 0) == regard.Sampling(seed=1).uniform(0, 0)
            True
        """
        key = np.random.SeedSequence((self.seed, row)).generate_state(2, np.uint64)
        return float(
            np.random.Generator(np.random.Philox(key=key, counter=[step, purpose, 0, 0])).random()
        )


def draw(probs: Scores, uniforms: Scores) -> Ids:
    """Return the id at which each row's cumulative probability (R, V) passes its uniform (R,)."""
    cumulative = probs.cumsum(-1)
    ids = (cumulative <= (uniforms * cumulative[:, -1])[:, None]).sum(-1)
    last = probs.shape[1] - 1 - (probs > 0)[:, ::-1].argmax(-1)
    drawn: Ids = np.minimum(ids, last)  # rounding must not reach past the last id
    return drawn


def _nucleus(probs: Scores, mass: float) -> NDArray[np.bool_]:
    """True for the fewest most likely tokens whose total probability is at least `mass`."""
    order = np.argsort(-probs, axis=-1, kind="stable")
    ordered = np.take_along_axis(probs, order, -1)
    preceding = ordered.cumsum(-1) - ordered
    retained = np.empty(probs.shape, dtype=bool)
    np.put_along_axis(retained, order, preceding < mass, -1)
    return retained


def _renormalize(probs: Scores, retained: NDArray[np.bool_]) -> Scores:
    probs = np.where(retained, probs, 0)
    return np.asarray(probs / probs.sum(-1, keepdims=True))
