"""BLEU (Papineni et al. 2002) by sacrebleu.

`lowercase` ignores case, as papers on Multi30k do. They use multi-bleu.perl on text tokenized by
Moses; this is sacrebleu's 13a, which splits less (French l'homme is one token), so the two values
are close but not equal. The signature says which tokenization was used: case:lc|tok:13a.
"""

from typing import ClassVar

from sacrebleu import BLEU

from regard.evaluation._sacrebleu import SacrebleuMetric


class Spec(SacrebleuMetric):
    label: ClassVar[str] = "BLEU"
    higher_is_better: ClassVar[bool] = True

    def scorer(self, lowercase: bool) -> BLEU:
        return BLEU(lowercase=lowercase)
