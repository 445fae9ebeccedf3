"""Pronoun resolution in the translations of the bundled corpus."""

from collections.abc import Sequence


def pronoun_accuracy(outputs: Sequence[str], pronouns: Sequence[str]) -> float:
    """Share of French outputs whose because-clause has the pronoun that its meaning requires."""
    right = sum(
        f"parce qu'{pronoun} " in output for output, pronoun in zip(outputs, pronouns, strict=True)
    )
    return right / len(pronouns)
