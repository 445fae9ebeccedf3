"""The bundled French–English grammar as a source: no files and no network."""

from functools import lru_cache

from pydantic import Field

from regard.data import bundled
from regard.data.sources import ParallelText, SourceSpec
from regard.errors import ConfigError

# Whoever trains on a corpus and then scores on its pronouns draws it once.
_drawn = lru_cache(maxsize=1)(bundled.corpus)


class Spec(SourceSpec):
    """data: {kind: grammar}"""

    train: int = Field(40_000, gt=0, le=500_000, description="pairs to train on")
    held_out: int = Field(1_000, gt=0, le=20_000, description="pairs to score on")
    pronouns: int = Field(500, gt=0, le=2_000, description="pairs whose pronoun must be resolved")
    seed: int = Field(1, ge=0, description="the same seed draws the same pairs")

    def corpus(self) -> bundled.Corpus:
        try:
            return _drawn(self.seed, self.train, self.held_out, self.pronouns)
        except ValueError as error:
            raise ConfigError(f"data: {error}.") from None

    def read(self) -> ParallelText:
        drawn = self.corpus()
        return ParallelText(
            languages=("fr", "en"),
            train=[(pair.french, pair.english) for pair in drawn.train],
            held_out=[(pair.french, pair.english) for pair in drawn.held_out],
            about=f"{len(drawn.train):,} French–English pairs of Regard's own grammar",
        )
