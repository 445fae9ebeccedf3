"""Language identification by naive Bayes over token counts.

It distinguishes the few languages that one model was trained on, so that `--to` can be left out
where only one target language is possible.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from regard.json_files import JsonSpec, parse_json, validate_json

SURE = 10.0  # log of the odds


class _Counts(JsonSpec):
    counts: dict[
        str,
        dict[
            Annotated[str, Field(pattern="^[0-9]{1,9}$")],
            Annotated[int, Field(ge=0, le=1 << 60)],
        ],
    ] = Field(max_length=1 << 16)


class LanguageIdentifier:
    """Counts of token ids for each language."""

    def __init__(self, counts: Mapping[str, Mapping[int, int]]) -> None:
        self.counts = {language: dict(of_language) for language, of_language in counts.items()}
        self._known = set().union(*self.counts.values())  # other tokens are ignored
        # Add-half smoothing: a token that a language never had must not decide alone.
        self._totals = {
            language: sum(of_language.values()) + len(self._known) / 2
            for language, of_language in self.counts.items()
        }

    @classmethod
    def learn(cls, texts: Mapping[str, Iterable[Sequence[int]]]) -> "LanguageIdentifier":
        """Count the ids of texts of each language."""
        return cls(
            {
                language: Counter(token for ids in rows for token in ids)
                for language, rows in texts.items()
            }
        )

    @classmethod
    def from_json(cls, text: str, where: str = "languages.json") -> "LanguageIdentifier":
        """Read the content of languages.json; raises RunError where it is damaged.

        Args:
            where: the file, for the error message.
        """
        counts = validate_json(_Counts, {"counts": parse_json(text, where)}, where).counts
        return cls(
            {
                language: {int(token): count for token, count in of_language.items()}
                for language, of_language in counts.items()
            }
        )

    def to_json(self) -> str:
        """Return the content of languages.json."""
        return json.dumps(self.counts)

    def identify(self, ids: Sequence[int]) -> str:
        """Return the most probable language of a text."""
        return max(self.counts, key=lambda language: self._log_likelihood(language, ids))

    def probabilities(self, ids: Sequence[int]) -> dict[str, float]:
        """Return the probability of each language, where all are equally likely beforehand."""
        log_likelihoods = {
            language: self._log_likelihood(language, ids) for language in self.counts
        }
        best = max(log_likelihoods.values())
        odds = {language: math.exp(own - best) for language, own in log_likelihoods.items()}
        total = sum(odds.values())
        return {language: own / total for language, own in odds.items()}

    def identify_surely(self, ids: Sequence[int]) -> str | None:
        """Return the language of a text if it is far more probable than any other, else None."""
        ranked = sorted((self._log_likelihood(language, ids), language) for language in self.counts)
        best, language = ranked[-1]
        return language if len(ranked) == 1 or best - ranked[-2][0] > SURE else None

    def _log_likelihood(self, language: str, ids: Sequence[int]) -> float:
        counts, total = self.counts[language], self._totals[language]
        known = [token for token in ids if token in self._known]
        return sum(math.log((counts.get(token, 0) + 0.5) / total) for token in known)
