"""chrF (Popović 2015), the F-score of character n-grams, by sacrebleu."""

from typing import ClassVar

from sacrebleu import CHRF

from regard.evaluation._sacrebleu import SacrebleuMetric


class Spec(SacrebleuMetric):
    label: ClassVar[str] = "chrF"
    higher_is_better: ClassVar[bool] = True

    def scorer(self, lowercase: bool) -> CHRF:
        return CHRF(lowercase=lowercase)
