"""Scores are sacrebleu's, with a signature that says which; what does not line up is refused."""

import pytest
import sacrebleu

from regard.errors import DataError
from regard.evaluation.bleu import score_translations

REFERENCES = ["A man rides a red bicycle.", "Two dogs run on the beach."]
OUTPUTS = ["A man rides a bicycle.", "two dogs run on the beach."]


@pytest.mark.parametrize("lowercased", [False, True])
def test_scores_are_what_the_signature_says(lowercased: bool) -> None:
    score = score_translations(OUTPUTS, REFERENCES, lowercased)
    case = "lc" if lowercased else "mixed"
    assert score.signature.startswith(f"nrefs:1|case:{case}|eff:no|tok:13a|smooth:exp|")
    expected = sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES], lowercase=lowercased).score
    assert score.bleu == pytest.approx(expected)
    assert (score.pairs, score.exact) == (2, 0.5 if lowercased else 0.0)


def test_case_is_the_only_thing_lowercasing_forgives() -> None:
    shouted = [reference.upper() for reference in REFERENCES]
    score = score_translations(shouted, REFERENCES, lowercased=True)
    assert (score.bleu, score.chrf, score.exact) == (pytest.approx(100), 100, 1)
    assert score_translations(shouted, REFERENCES).bleu < 50


@pytest.mark.parametrize(("outputs", "references"), [(OUTPUTS, REFERENCES[:1]), ([], [])])
def test_what_does_not_line_up_is_refused(outputs: list[str], references: list[str]) -> None:
    with pytest.raises(DataError, match=f"{len(outputs)} translations cannot be scored"):
        score_translations(outputs, references)
