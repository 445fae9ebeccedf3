"""Base of all predictors: a trained model, its tokenizer and the longest input it takes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from regard.data.tokenizers.tokenizer import Tokenizer, require_text
from regard.engine.stored_model import StoredModel
from regard.errors import DataError

if TYPE_CHECKING:
    import torch
    from torch import nn

M = TypeVar("M", bound="nn.Module")


class BasePredictor(Generic[M]):
    """A trained model with its tokenizer, in evaluation mode.

    Args:
        model: The trained model, or the one stored in a run folder.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens in an input of the model.
    """

    tokens_per_word: float | None = None  # in the training text, where the run folder has it
    # Settings of the source that the run was trained on, without its paths; None if not known.
    file_format: Mapping[str, Any] | None = None
    fix_encoding = False  # the training text was repaired by data.filters.fix_encoding

    def __init__(self, model: M | StoredModel, tokenizer: Tokenizer, max_length: int) -> None:
        self._model = model if isinstance(model, StoredModel) else model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length

    @property
    def model(self) -> M:
        """The torch module; that of a run which the engine decodes is built when first used."""
        model = self._model
        return cast("M", model.module if isinstance(model, StoredModel) else model)

    @property
    def device(self) -> "torch.device":
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


def named_texts(
    texts: Iterable[str], noun: str = "text", names: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return texts as a list, and the name of each in error messages; refuse what is no text.

    One text instead of a list of texts would otherwise be read as a list of its characters.
    """
    if isinstance(texts, str | bytes):
        raise DataError(f"a list of texts is needed, not one text: give [{noun}].")
    texts = list(texts)
    names = [f"{noun} {n}" for n in range(1, len(texts) + 1)] if names is None else list(names)
    if len(names) != len(texts):
        raise DataError(
            f"there are {len(texts):,} texts and {len(names):,} names: give one name for each."
        )
    for text, name in zip(texts, names, strict=True):
        require_text(text, name)
    return texts, names
