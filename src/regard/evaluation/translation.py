"""BLEU and chrF by sacrebleu, on detokenised text; and how often a pronoun was resolved."""

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu


@dataclass(frozen=True)
class TranslationScore:
    bleu: float
    chrf: float
    exact: float  # share of sentences equal to their reference
    pairs: int
    signature: str  # how BLEU was computed, so that others can compare


def score_translations(outputs: Sequence[str], references: Sequence[str]) -> TranslationScore:
    bleu = sacrebleu.BLEU()
    return TranslationScore(
        bleu=bleu.corpus_score(list(outputs), [list(references)]).score,
        chrf=sacrebleu.CHRF().corpus_score(list(outputs), [list(references)]).score,
        exact=sum(map(str.__eq__, outputs, references)) / len(references),
        pairs=len(references),
        signature=str(bleu.get_signature()),
    )


def pronouns_right(outputs: Sequence[str], pronouns: Sequence[str]) -> float:
    """The share of French outputs whose because-clause has the pronoun its meaning demands."""
    right = sum(
        f"parce qu'{pronoun} " in output for output, pronoun in zip(outputs, pronouns, strict=True)
    )
    return right / len(pronouns)
