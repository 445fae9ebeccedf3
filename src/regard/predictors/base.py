"""Base of all predictors: a trained model, its tokenizer and the longest input it takes."""

from typing import Generic, TypeVar

import torch
from torch import nn

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError

M = TypeVar("M", bound=nn.Module)


class BasePredictor(Generic[M]):
    """A trained model with its tokenizer, in evaluation mode.

    Args:
        model: The trained model.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens in an input of the model.
    """

    def __init__(self, model: M, tokenizer: Tokenizer, max_length: int) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        return next(self.model.parameters()).device

    def _encode_text(self, text: str, number: int) -> list[int]:
        """Return the ids of a text between the start and the end token."""
        ids = [self.tokenizer.start, *self.tokenizer.encode(text), self.tokenizer.end]
        return self._check_length(ids, number)

    def _check_length(self, ids: list[int], number: int) -> list[int]:
        """Return the ids; refuse, instead of truncating, what is too long for the model."""
        if len(ids) > self.max_length:
            raise DataError(
                f"text {number} has {len(ids):,} tokens and this model takes "
                f"{self.max_length:,}: shorten it."
            )
        return ids
