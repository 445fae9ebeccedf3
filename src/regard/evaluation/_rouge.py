"""ROUGE (Lin 2004) by Google's rouge-score: n-gram overlap of a summary with its reference.

ROUGE-1 and ROUGE-2 count common unigrams and bigrams, ROUGE-L the longest common subsequence; all
are F1 in per cent, of stemmed words, averaged over texts. Where a text has several references, the
one with the highest ROUGE-L counts, as in SciTLDR (Cachola et al. 2020).
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import ClassVar

from regard.evaluation.texts import SummaryMetric, TextScore

VARIANTS = ("rouge1", "rouge2", "rougeL")


class RougeMetric(SummaryMetric):
    variant: ClassVar[str]  # in rouge-score
    higher_is_better: ClassVar[bool] = True

    def score(
        self, outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
    ) -> TextScore:
        # rouge-score always ignores case.
        values = _rouge(tuple(outputs), tuple(map(tuple, references)))
        several = "|refs:best" if any(len(texts) > 1 for texts in references) else ""
        signature = f"rouge-score|F1|stem:yes{several}|version:{version('rouge-score')}"
        return TextScore(values[self.variant], signature)


@lru_cache(maxsize=1)  # the three metrics are computed together and asked for one after the other
def _rouge(outputs: tuple[str, ...], references: tuple[tuple[str, ...], ...]) -> dict[str, float]:
    from rouge_score.rouge_scorer import RougeScorer  # imports nltk: only when needed

    scorer = RougeScorer(VARIANTS, use_stemmer=True)

    def closest(output: str, texts: Sequence[str]) -> tuple[float, ...]:
        scores = (scorer.score(reference, output) for reference in texts)
        values = [tuple(score[variant].fmeasure for variant in VARIANTS) for score in scores]
        return max(values, key=lambda value: value[-1])

    best = [closest(*pair) for pair in zip(outputs, references, strict=True)]
    means = (sum(values) / len(best) * 100 for values in zip(*best, strict=True))
    return dict(zip(VARIANTS, means, strict=True))
