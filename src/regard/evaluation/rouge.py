"""ROUGE by Google's rouge-score: what a summary and its reference have in common.

ROUGE-1 and ROUGE-2 count words and pairs of words in common, ROUGE-L the longest sequence of words
in common; all are F1 in per cent, of stemmed words, averaged over texts. Where a text has several
references, the one that is nearest by ROUGE-L counts, as SciTLDR has it (Cachola et al. 2020).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from regard.errors import DataError

KINDS = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class SummaryScore:
    rouge1: float
    rouge2: float
    rouge_l: float
    texts: int
    signature: str  # how it was computed, so that others can compare


def score_summaries(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> SummaryScore:
    """Of each output against the references of its text, one or more."""
    if not references or len(outputs) != len(references) or not all(references):
        raise DataError(
            f"{len(outputs):,} summaries cannot be scored against the references of "
            f"{len(references):,} texts: give one or more for each, and at least one text."
        )
    from rouge_score.rouge_scorer import RougeScorer  # brings nltk: not before it is needed

    scorer = RougeScorer(KINDS, use_stemmer=True)
    found = [_best(scorer, *each) for each in zip(outputs, references, strict=True)]
    first, second, longest = (sum(each) / len(found) * 100 for each in zip(*found, strict=True))
    several = "|refs:best" if any(len(each) > 1 for each in references) else ""
    signature = f"rouge-score|F1|stem:yes{several}|version:{version('rouge-score')}"
    return SummaryScore(first, second, longest, len(outputs), signature)


def _best(scorer: Any, output: str, references: Sequence[str]) -> tuple[float, ...]:
    scores = (scorer.score(reference, output) for reference in references)
    each = [tuple(score[kind].fmeasure for kind in KINDS) for score in scores]
    return max(each, key=lambda found: found[-1])
