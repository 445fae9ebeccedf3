"""Confidence intervals and significance tests of BLEU by bootstrap resampling (Koehn 2004).

Computed by sacrebleu, which needs 40 bytes for each sentence of each resample: 10,000 sentences and
1,000 resamples take 0.4 GB.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import sacrebleu
from sacrebleu.significance import PairedTest, Result

from regard.errors import ConfigError
from regard.evaluation.texts import check_alignment


@dataclass(frozen=True)
class Confidence:
    """BLEU with its 95 % confidence interval, mean ± margin."""

    bleu: float
    mean: float  # over the resamples
    margin: float  # half the width of the interval that holds 95 % of the resamples
    signature: str  # of sacrebleu, with the number of resamples and the seed


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same resamples."""

    ours: Confidence
    theirs: Confidence
    p_value: float  # probability of a difference as large if both systems were equally good


def confidence(
    *,
    references: Sequence[str],
    outputs: Sequence[str],
    samples: int = 1000,
    seed: int = 12345,
    lowercased: bool = False,
) -> Confidence:
    """Estimate how far BLEU depends on the choice of test sentences.

    Args:
        samples: number of resamples.
        seed: of the resampling.
        lowercased: ignore case.

    Raises:
        DataError: outputs and references differ in number.
        ConfigError: samples or seed is below 1.
    """
    (result,), signature = _resample(references, [outputs], samples, seed, lowercased)
    return _confidence(result, signature)


def paired_bootstrap(
    *,
    references: Sequence[str],
    ours: Sequence[str],
    theirs: Sequence[str],
    samples: int = 1000,
    seed: int = 12345,
    lowercased: bool = False,
) -> Comparison:
    """Test whether two systems differ by more than the choice of test sentences explains.

    Arguments and errors are those of `confidence`.
    """
    systems = [theirs, ours]  # sacrebleu compares the second with the first
    results, signature = _resample(references, systems, samples, seed, lowercased)
    baseline, system = (_confidence(result, signature) for result in results)
    p_value = results[1].p_value
    assert p_value is not None
    # sacrebleu counts the resamples that differ more than the test set: of equal outputs, none.
    return Comparison(system, baseline, 1.0 if list(ours) == list(theirs) else p_value)


def _resample(
    references: Sequence[str],
    systems: Sequence[Sequence[str]],
    samples: int,
    seed: int,
    lowercased: bool,
) -> tuple[list[Result], str]:
    """BLEU of each system on the same resamples, and the signature."""
    if samples < 1 or seed < 1:  # to sacrebleu, 0 means its default and no seed
        raise ConfigError(f"samples is {samples} and seed is {seed}: both must be at least 1.")
    for outputs in systems:
        check_alignment(outputs, [[reference] for reference in references])
    named: list[tuple[str, Sequence[str]]] = [
        (str(number), list(outputs)) for number, outputs in enumerate(systems)
    ]
    bleu = sacrebleu.BLEU(lowercase=lowercased)
    with _seeded(seed):
        signatures, table = PairedTest(named, {"BLEU": bleu}, [list(references)], "bs", samples)()
    results = [result for result in table["BLEU"] if isinstance(result, Result)]
    return results, str(signatures["BLEU"])


def _confidence(result: Result, signature: str) -> Confidence:
    assert result.mean is not None
    assert result.ci is not None
    return Confidence(result.score, float(result.mean), float(result.ci), signature)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Set sacrebleu's seed, which it reads from the environment only."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        del os.environ["SACREBLEU_SEED"]
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before
