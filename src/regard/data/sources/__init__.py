"""Where parallel text comes from, one file a kind. All give a `ParallelText`."""

from dataclasses import dataclass

from regard.config import Kind


@dataclass(frozen=True)
class ParallelText:
    """Aligned sentences in two languages; each pair is in the order of `languages`."""

    languages: tuple[str, str]
    train: list[tuple[str, str]]
    held_out: list[tuple[str, str]]
    about: str  # one line for the model card: what it is, and how much


class SourceSpec(Kind, room="regard.data.sources"):
    """A kind of source."""

    def read(self) -> ParallelText:
        raise NotImplementedError
