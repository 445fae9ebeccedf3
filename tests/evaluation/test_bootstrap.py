"""The bootstrap: narrower intervals with more sentences, significance of differences."""

import os
import random

import pytest

from regard.errors import ConfigError, DataError
from regard.evaluation.bootstrap import Comparison, Confidence, confidence, paired_bootstrap
from regard.evaluation.texts import score_translations

WORDS = "abcdefghijklmno"


def sentences(count: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(6, 14))) for _ in range(count)]


def worsened(references: list[str], share: float, seed: int) -> list[str]:
    """Replace a share of the words."""
    draw = random.Random(seed)
    return [
        " ".join(word if draw.random() > share else "wrong" for word in line.split())
        for line in references
    ]


REFERENCES = sentences(200)


def compare(ours: list[str], theirs: list[str]) -> Comparison:
    return paired_bootstrap(references=REFERENCES, ours=ours, theirs=theirs, samples=200)


def test_real_difference_is_significant() -> None:
    good, bad = worsened(REFERENCES, 0.1, seed=1), worsened(REFERENCES, 0.4, seed=2)
    real = compare(good, bad)
    assert real.ours.bleu == pytest.approx(score_translations(good, REFERENCES)["bleu"])
    assert real.theirs.bleu == pytest.approx(score_translations(bad, REFERENCES)["bleu"])
    assert real.ours.mean - real.ours.margin > real.theirs.mean + real.theirs.margin
    assert real.p_value < 0.01
    assert compare(good, worsened(REFERENCES, 0.1, seed=3)).p_value > 0.05


def test_equal_systems_do_not_differ() -> None:
    same = worsened(REFERENCES, 0.2, seed=1)
    assert compare(same, list(same)).p_value == 1


def test_interval_contains_the_score_and_shrinks_with_more_sentences() -> None:
    outputs = worsened(REFERENCES, 0.2, seed=1)
    whole = confidence(references=REFERENCES, outputs=outputs, samples=300)
    few = confidence(references=REFERENCES[:20], outputs=outputs[:20], samples=300)
    assert 0 < whole.margin < few.margin
    assert abs(whole.bleu - whole.mean) < whole.margin


def test_seed_determines_the_resamples_and_is_in_the_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    outputs = worsened(REFERENCES, 0.2, seed=1)

    def drawn(seed: int) -> Confidence:
        return confidence(
            references=REFERENCES, outputs=outputs, samples=50, seed=seed, lowercased=True
        )

    assert drawn(3) == drawn(3)
    assert drawn(3).mean != drawn(4).mean
    assert drawn(3).signature.startswith("nrefs:1|bs:50|seed:3|case:lc|eff:no|tok:13a|")
    assert os.environ["SACREBLEU_SEED"] == "7"


def test_outputs_of_different_number_are_refused() -> None:
    with pytest.raises(
        DataError, match="199 outputs cannot be scored against the references of 200 texts"
    ):
        compare(REFERENCES, REFERENCES[:-1])
    with pytest.raises(ConfigError, match="seed is 0"):
        confidence(references=REFERENCES, outputs=REFERENCES, seed=0)
