"""BLEU and chrF by sacrebleu, on detokenised text; and how often a pronoun was resolved.

`lowercased` ignores case, as papers on Multi30k do. Theirs is multi-bleu.perl on text tokenised by
Moses; ours is sacrebleu's 13a, which splits less (French l'homme stays whole), so the two are close
but not the same. The signature says which it was: case:lc|tok:13a.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu

from regard.errors import DataError


@dataclass(frozen=True)
class TranslationScore:
    bleu: float
    chrf: float
    exact: float  # share of sentences equal to their reference
    pairs: int
    signature: str  # how BLEU was computed, so that others can compare
    chrf_signature: str


def score_translations(
    outputs: Sequence[str], references: Sequence[str], lowercased: bool = False
) -> TranslationScore:
    check_alignment(outputs, references)
    bleu, chrf = sacrebleu.BLEU(lowercase=lowercased), sacrebleu.CHRF(lowercase=lowercased)
    form = str.lower if lowercased else str
    return TranslationScore(
        bleu=bleu.corpus_score(list(outputs), [list(references)]).score,
        chrf=chrf.corpus_score(list(outputs), [list(references)]).score,
        exact=sum(map(str.__eq__, map(form, outputs), map(form, references))) / len(references),
        pairs=len(references),
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def check_alignment(outputs: Sequence[str], references: Sequence[str]) -> None:
    """sacrebleu would score as many as the shorter has, and say nothing."""
    if not references or len(outputs) != len(references):
        raise DataError(
            f"{len(outputs):,} translations cannot be scored against {len(references):,} "
            f"references: give one reference for each, and at least one."
        )


def pronouns_right(outputs: Sequence[str], pronouns: Sequence[str]) -> float:
    """The share of French outputs whose because-clause has the pronoun its meaning demands."""
    right = sum(
        f"parce qu'{pronoun} " in output for output, pronoun in zip(outputs, pronouns, strict=True)
    )
    return right / len(pronouns)
