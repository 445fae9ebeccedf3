"""The bundled French-English corpus as a source: no files and no network."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import ClassVar, Literal

from pydantic import Field

from regard.data import bundled
from regard.data.records import Line, Location, Record
from regard.data.sources.base import SourceSpec
from regard.errors import ConfigError

# The training and evaluation sources of one corpus generate it once.
_corpus = lru_cache(maxsize=1)(bundled.corpus)


class Spec(SourceSpec):
    """{kind: grammar}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "part": "split",
        "train": "train_size",
        "held_out": "dev_size",
        "pronouns": "pronouns_size",
    }

    split: Literal["train", "dev", "pronouns"] = Field(
        "train", description="which split of the corpus; no sentence is in two of them"
    )
    train_size: int = Field(40_000, gt=0, le=500_000, description="number of training pairs")
    dev_size: int = Field(1_000, gt=0, le=20_000, description="number of dev pairs")
    pronouns_size: int = Field(
        500, gt=0, le=2_000, description="number of pairs with an ambiguous pronoun"
    )
    seed: int = Field(1, ge=0, description="seed of the random pairs")

    @property
    def language_pair(self) -> tuple[str, ...]:
        return ("fr", "en")

    @property
    def version(self) -> str:
        return bundled.source_hash()

    def corpus(self) -> bundled.Corpus:
        """Generate the corpus; raises ConfigError for sizes that the grammar cannot give."""
        try:
            return _corpus(self.seed, self.train_size, self.dev_size, self.pronouns_size)
        except ValueError as error:
            raise ConfigError(f"data: {error}.") from None

    def records(self) -> Iterator[Line]:
        corpus = self.corpus()
        splits = {"train": corpus.train, "dev": corpus.dev, "pronouns": corpus.pronouns}
        for number, pair in enumerate(splits[self.split], start=1):
            yield Record(Location("the bundled grammar", number), (pair.french, pair.english))
