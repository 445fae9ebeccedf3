"""Base of the predictors of encoders, which the engine computes where it supports the model."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.engine.encoders import FastEncoder
from regard.engine.select import EngineModel
from regard.engine.stored_model import StoredModel
from regard.predictors.base import BasePredictor

if TYPE_CHECKING:
    from torch import nn

BATCH = 64  # texts

M = TypeVar("M", bound="nn.Module")


class EncoderPredictor(BasePredictor[M]):
    """A trained encoder with its tokenizer, in evaluation mode.

    Args:
        model: The trained model, or the one stored in a run folder.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens in an input of the model.
        bits: 32, or 8 or 4 for integer weights (default: 32).
    """

    def __init__(
        self, model: M | StoredModel, tokenizer: Tokenizer, max_length: int, bits: int = 32
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.engine_model = EngineModel(self._model, max_length, bits)

    @property
    def _fast(self) -> FastEncoder | None:
        """The model in the engine, or None where torch must compute it."""
        packed = self.engine_model.packed
        return packed if isinstance(packed, FastEncoder) else None


def batches_by_length(rows: Sequence[Sequence[Any]], size: int = BATCH) -> Iterator[list[int]]:
    """Yield the indices of rows in batches of similar lengths, which need little padding."""
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    for start in range(0, len(rows), size):
        yield order[start : start + size]
