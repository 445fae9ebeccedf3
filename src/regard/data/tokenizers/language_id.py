"""Which language is a text in? Told by how often each piece was seen in each, naive Bayes.

Between the few languages that one model was trained on this is a light question, and it spares a
person from saying "--to" where there is only one other language to go to.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence


class LanguageIdentifier:
    """Counts of piece ids for each language."""

    def __init__(self, counts: Mapping[str, Mapping[int, int]]) -> None:
        self.counts = {language: dict(each) for language, each in counts.items()}
        self._known = set().union(*self.counts.values())  # a piece of no language tells nothing
        # Half a count more for each piece: one that a language never had must not decide alone.
        self._totals = {
            language: sum(each.values()) + len(self._known) / 2
            for language, each in self.counts.items()
        }

    @classmethod
    def learn(cls, texts: Mapping[str, Iterable[Sequence[int]]]) -> "LanguageIdentifier":
        return cls(
            {
                language: Counter(piece for ids in rows for piece in ids)
                for language, rows in texts.items()
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "LanguageIdentifier":
        content = json.loads(text)
        return cls({name: {int(i): n for i, n in each.items()} for name, each in content.items()})

    def to_json(self) -> str:
        return json.dumps(self.counts)

    def of(self, ids: Sequence[int]) -> str:
        """The likeliest language of a text, given as ids."""
        return max(self.counts, key=lambda language: self._log_likelihood(language, ids))

    def _log_likelihood(self, language: str, ids: Sequence[int]) -> float:
        seen, total = self.counts[language], self._totals[language]
        known = [piece for piece in ids if piece in self._known]
        return sum(math.log((seen.get(piece, 0) + 0.5) / total) for piece in known)
