"""Pairs of sentences as ids, and as examples to learn from in both directions."""

from collections.abc import Sequence

from regard.data.batching import Example
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError

Rows = list[list[int]]


def encode(pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer) -> list[Rows]:
    """The two sides of the pairs, each a row of ids for each pair."""
    return [tokenizer.encode_all(side) for side in zip(*pairs, strict=True)]


def check_lengths(sides: Sequence[Rows], limit: int, name: str) -> None:
    """With its tag or start, and its end, every side must fit the model."""
    for side in sides:
        for number, ids in enumerate(side, start=1):
            if len(ids) + 2 > limit:
                raise DataError(
                    f"{name} pair {number} has a side of {len(ids) + 2} tokens and the model takes "
                    f"{limit}: raise model.max_length, or shorten or remove the pair."
                )


def both_ways(
    sides: Sequence[Rows], languages: Sequence[str], tokenizer: Tokenizer
) -> list[Example]:
    """Every pair both ways, each source with the tag of the language to produce."""
    tags = [tokenizer.language(language) for language in languages]
    return [
        Example(
            source=[tags[1 - here], *ids, tokenizer.end],
            target=[tokenizer.start, *sides[1 - here][row], tokenizer.end],
        )
        for here in (0, 1)
        for row, ids in enumerate(sides[here])
    ]
