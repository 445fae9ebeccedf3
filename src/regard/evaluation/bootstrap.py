"""How sure a BLEU is: scored again on test sets drawn, with replacement, from the one at hand.

The bootstrap of Koehn (2004), by sacrebleu. It keeps 40 bytes for each sentence of each draw: ten
thousand sentences drawn a thousand times take 0.4 GB.
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
    bleu: float
    mean: float  # over the draws
    margin: float  # half the width of the interval that holds 95 % of the draws
    signature: str  # how BLEU was computed, the number of draws and their seed included


@dataclass(frozen=True)
class Comparison:
    ours: Confidence
    theirs: Confidence
    p_value: float  # the chance of a difference as large between systems that are equally good


def confidence(
    *,
    references: Sequence[str],
    outputs: Sequence[str],
    samples: int = 1000,
    seed: int = 12345,
    lowercased: bool = False,
) -> Confidence:
    """How far BLEU depends on which sentences happened to be in the test set."""
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
    """Whether two systems differ by more than which sentences happened to be in the test set."""
    systems = [theirs, ours]  # sacrebleu's p-value is the second's, against the first
    results, signature = _resample(references, systems, samples, seed, lowercased)
    of_theirs, of_ours = (_confidence(result, signature) for result in results)
    p_value = results[1].p_value
    assert p_value is not None
    # sacrebleu counts the draws that differ more than the whole: of equal outputs, none.
    return Comparison(of_ours, of_theirs, 1.0 if list(ours) == list(theirs) else p_value)


def _resample(
    references: Sequence[str],
    systems: Sequence[Sequence[str]],
    samples: int,
    seed: int,
    lowercased: bool,
) -> tuple[list[Result], str]:
    """Each system's BLEU on the same draws, and the signature."""
    if samples < 1 or seed < 1:  # sacrebleu takes 0 for its own number of draws and for no seed
        raise ConfigError(f"samples is {samples} and seed is {seed}: give both as at least 1.")
    for outputs in systems:
        check_alignment(outputs, [[reference] for reference in references])
    named: list[tuple[str, Sequence[str]]] = [
        (str(i), list(each)) for i, each in enumerate(systems)
    ]
    bleu = sacrebleu.BLEU(lowercase=lowercased)
    with _seeded(seed):
        signatures, table = PairedTest(named, {"BLEU": bleu}, [list(references)], "bs", samples)()
    return [each for each in table["BLEU"] if isinstance(each, Result)], str(signatures["BLEU"])


def _confidence(result: Result, signature: str) -> Confidence:
    assert result.mean is not None
    assert result.ci is not None
    return Confidence(result.score, float(result.mean), float(result.ci), signature)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The environment is the only way to give sacrebleu a seed."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        del os.environ["SACREBLEU_SEED"]
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before
