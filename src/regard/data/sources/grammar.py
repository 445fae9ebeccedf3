"""The bundled French–English grammar as a source: no files and no network."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from pydantic import Field

from regard.data import bundled
from regard.data.records import Line, Place, Record
from regard.data.sources.base import SourceSpec
from regard.errors import ConfigError

# Whoever trains on a corpus and then scores on its pronouns draws it once.
_drawn = lru_cache(maxsize=1)(bundled.corpus)


class Spec(SourceSpec):
    """{kind: grammar}"""

    part: Literal["train", "held-out", "pronouns"] = Field(
        "train", description="which pairs of the corpus; no sentence is in two parts"
    )
    train: int = Field(40_000, gt=0, le=500_000, description="pairs to train on")
    held_out: int = Field(1_000, gt=0, le=20_000, description="pairs to score on")
    pronouns: int = Field(500, gt=0, le=2_000, description="pairs whose pronoun must be resolved")
    seed: int = Field(1, ge=0, description="the same seed draws the same pairs")

    @property
    def tongues(self) -> tuple[str, ...]:
        return ("fr", "en")

    def corpus(self) -> bundled.Corpus:
        try:
            return _drawn(self.seed, self.train, self.held_out, self.pronouns)
        except ValueError as error:
            raise ConfigError(f"data: {error}.") from None

    def records(self) -> Iterator[Line]:
        drawn = self.corpus()
        parts = {"train": drawn.train, "held-out": drawn.held_out, "pronouns": drawn.pronouns}
        for number, pair in enumerate(parts[self.part], start=1):
            yield Record(Place("the bundled grammar", number), (pair.french, pair.english))
