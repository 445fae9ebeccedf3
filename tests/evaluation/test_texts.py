"""Metrics of translations and summaries: parity with sacrebleu and rouge-score."""

import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from regard.errors import DataError
from regard.evaluation.texts import score_summaries, score_translations

REFERENCES = ["A man rides a red bicycle.", "Two dogs run on the beach."]
TRANSLATIONS = ["A man rides a bicycle.", "two dogs run on the beach."]

SUMMARIES = ["the cat sat on the mat", "a dog barks", ""]
SUMMARY_REFERENCES = [
    "the cats are sitting on a mat",
    "dogs bark loudly at night",
    "nothing was said",
]


@pytest.mark.parametrize("lowercase", [False, True])
def test_translation_scores_equal_sacrebleu(lowercase: bool) -> None:
    scores = score_translations(TRANSLATIONS, REFERENCES, lowercase)
    case = "lc" if lowercase else "mixed"
    signature = scores.signatures["bleu"]
    assert signature.startswith(f"nrefs:1|case:{case}|eff:no|tok:13a|smooth:exp|")
    bleu = sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES], lowercase=lowercase).score
    assert scores["bleu"] == pytest.approx(bleu)
    chrf = sacrebleu.CHRF(lowercase=lowercase).corpus_score(TRANSLATIONS, [REFERENCES]).score
    assert scores["chrf"] == pytest.approx(chrf)
    assert (scores.count, scores["exact_match"]) == (2, 0.5 if lowercase else 0.0)


def test_lowercase_ignores_case_only() -> None:
    upper = [reference.upper() for reference in REFERENCES]
    scores = score_translations(upper, REFERENCES, lowercase=True)
    assert (scores["bleu"], scores["chrf"], scores["exact_match"]) == (pytest.approx(100), 100, 1)
    assert score_translations(upper, REFERENCES)["bleu"] < 50


@pytest.mark.parametrize(("outputs", "references"), [(TRANSLATIONS, REFERENCES[:1]), ([], [])])
def test_outputs_without_a_reference_each_are_refused(
    outputs: list[str], references: list[str]
) -> None:
    with pytest.raises(DataError, match=f"{len(outputs)} outputs cannot be scored"):
        score_translations(outputs, references)


def test_an_empty_reference_is_scored() -> None:
    assert score_translations(["a"], [""])["exact_match"] == 0


def test_rouge_equals_rouge_score() -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    pairs = zip(SUMMARIES, SUMMARY_REFERENCES, strict=True)
    expected = [scorer.score(reference, summary) for summary, reference in pairs]
    scores = score_summaries(SUMMARIES, [[reference] for reference in SUMMARY_REFERENCES])
    for variant, name in (("rouge1", "rouge1"), ("rouge2", "rouge2"), ("rougeL", "rouge_l")):
        mean = 100 * sum(score[variant].fmeasure for score in expected) / 3
        assert scores[name] == pytest.approx(mean)
    assert 0 < scores["rouge2"] < scores["rouge_l"] <= scores["rouge1"] < 100
    assert all("stem:yes" in signature for signature in scores.signatures.values())


def test_rouge_uses_the_closest_of_several_references() -> None:
    scores = score_summaries(["a b c"], [["x y z", "a b c", "a b"]])
    assert scores.values == {"rouge1": 100, "rouge2": 100, "rouge_l": 100}
    assert "refs:best" in scores.signatures["rouge_l"]


@pytest.mark.parametrize("references", [[], [["a"], ["b"]], [[]]])
def test_summaries_without_references_are_refused(references: list[list[str]]) -> None:
    with pytest.raises(DataError, match="cannot be scored"):
        score_summaries(["a"], references)
