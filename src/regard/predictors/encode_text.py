"""A text as a model that reads whole texts takes it."""

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError


def whole_text(text: str, number: int, tokenizer: Tokenizer, max_length: int) -> list[int]:
    """Its ids between start and end; one that is too long is refused, not cut."""
    ids = [tokenizer.start, *tokenizer.encode(text), tokenizer.end]
    return refuse_long(ids, number, max_length)


def refuse_long(ids: list[int], number: int, max_length: int) -> list[int]:
    """The ids of a text, unless they are more than a model takes."""
    if len(ids) > max_length:
        raise DataError(
            f"text {number} has {len(ids):,} tokens and this model takes {max_length:,}: "
            f"shorten it."
        )
    return ids
