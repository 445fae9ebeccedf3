"""Metrics computed by sacrebleu, on detokenized text."""

from collections.abc import Sequence
from itertools import zip_longest

from sacrebleu.metrics.base import Metric as Scorer

from regard.evaluation.texts import TextScore, TranslationMetric


class SacrebleuMetric(TranslationMetric):
    def scorer(self, lowercase: bool) -> Scorer:
        """Build sacrebleu's scorer."""
        raise NotImplementedError

    def score(
        self, outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
    ) -> TextScore:
        scorer = self.scorer(lowercase)
        # sacrebleu takes a list for the first references, one for the second …
        streams = [list(stream) for stream in zip_longest(*references)]
        value = scorer.corpus_score(list(outputs), streams).score
        return TextScore(float(value), str(scorer.get_signature()))
