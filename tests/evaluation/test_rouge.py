"""ROUGE: what rouge-score says, the best of several references, and no silence about mismatches."""

import pytest
from rouge_score.rouge_scorer import RougeScorer

from regard.errors import DataError
from regard.evaluation.rouge import score_summaries

OUTPUTS = ["the cat sat on the mat", "a dog barks", ""]
REFERENCES = ["the cats are sitting on a mat", "dogs bark loudly at night", "nothing was said"]


def test_scores_are_those_of_rouge_score() -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    each = [scorer.score(ref, out) for out, ref in zip(OUTPUTS, REFERENCES, strict=True)]
    found = score_summaries(OUTPUTS, [[reference] for reference in REFERENCES])
    for kind, value in (
        ("rouge1", found.rouge1),
        ("rouge2", found.rouge2),
        ("rougeL", found.rouge_l),
    ):
        mean = 100 * sum(score[kind].fmeasure for score in each) / 3
        assert value == pytest.approx(mean)
    assert 0 < found.rouge2 < found.rouge_l <= found.rouge1 < 100
    assert "stem:yes" in found.signature


def test_the_nearest_reference_counts() -> None:
    found = score_summaries(["a b c"], [["x y z", "a b c", "a b"]])
    assert (found.rouge1, found.rouge2, found.rouge_l) == (100, 100, 100)
    assert "refs:best" in found.signature


@pytest.mark.parametrize("references", [[], [["a"], ["b"]], [[]]])
def test_what_does_not_match_is_refused(references: list[list[str]]) -> None:
    with pytest.raises(DataError, match="cannot be scored"):
        score_summaries(["a"], references)
