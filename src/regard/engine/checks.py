"""Checks of ids and lengths before a call: the engine reads rows of tables unchecked."""

from typing import Any

from numpy.typing import NDArray

from regard.errors import DataError


def check_ids(ids: NDArray[Any], vocabulary: int) -> None:
    """Raise DataError for an id without a row in the embedding."""
    if not ids.size or (ids.min() >= 0 and ids.max() < vocabulary):
        return
    outside = ids[(ids < 0) | (ids >= vocabulary)]
    raise DataError(
        f"token id {int(outside.flat[0])} is not in this model's vocabulary, 0 to "
        f"{vocabulary - 1:,}; use the tokenizer that the model was trained with."
    )


def check_length(length: int, capacity: int) -> None:
    """Raise DataError for more tokens than the tables of positions have."""
    if length > capacity:
        raise DataError(
            f"this model takes {capacity:,} tokens and was given more; shorten the text."
        )
