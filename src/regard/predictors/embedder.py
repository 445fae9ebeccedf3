"""Embed texts: a vector for each text, pooled from the states of an encoder."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.config import validate
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.engine.checks import check_ids
from regard.engine.numerics import highest
from regard.engine.pooling import POOLINGS
from regard.engine.stored_model import StoredModel
from regard.errors import DataError
from regard.missing_modules import required_by
from regard.predictors.base import named_texts
from regard.predictors.encoder import EncoderPredictor, batches_by_length

if TYPE_CHECKING:
    from torch import Tensor

    from regard.models.encoder import Encoder

LEAST_LENGTH = 1e-12  # of a vector that is divided by its length, as in torch

Vectors = NDArray[np.float32]


class Embedder(EncoderPredictor["Encoder"]):
    """Predictor of an imported encoder: a vector for each text.

    Args:
        model: The encoder.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens of a text.
        pooling: "mean" (default), "first" or "max" of the token states.
        normalize: Scale the vectors to length 1 (default: True).
        bits: 32, or 8 or 4 for integer weights (default: 32).
    """

    def __init__(
        self,
        model: "Encoder | StoredModel",
        tokenizer: Tokenizer,
        max_length: int,
        pooling: str = "mean",
        normalize: bool = True,
        bits: int = 32,
    ) -> None:
        super().__init__(model, tokenizer, max_length, bits)
        self.pooling, self.normalize = pooling, normalize
        self._engine_pools = isinstance(pooling, str) and pooling in POOLINGS
        if not self._engine_pools:
            _ = self.pool  # refuses a kind that there is not

    @cached_property
    def pool(self) -> Any:
        """The torch module that pools the states of the tokens."""
        from regard.layers.pooling.base import PoolingSpec

        spec = validate(PoolingSpec, self.pooling, "pooling")
        return spec.build(self._dim)

    @property
    def _dim(self) -> int:
        fast = self._fast
        return self.model.embedding.tokens.embedding_dim if fast is None else fast.dim

    @required_by("Embedder.embed")
    def embed(
        self, texts: Sequence[str], on_progress: Callable[[int], None] | None = None
    ) -> "Tensor":
        """Return a vector for each text (texts, dim).

        Args:
            texts: Texts that fit the model.
            on_progress: Called with the number of texts of each finished batch.

        Raises:
            DataError: A text is empty or too long for the model.

        Example:
            >>> import regard
            >>> embedder = regard.load_embedder("runs/encoder")
            >>> tuple(embedder.embed(["the cat sits", "the dog barks"]).shape)
            (2, 32)
        """
        import torch

        return torch.from_numpy(self.vectors(texts, on_progress))

    def vectors(
        self,
        texts: Sequence[str],
        on_progress: Callable[[int], None] | None = None,
        normalize: bool | None = None,
    ) -> Vectors:
        """Return the vectors of `embed` as an array, without torch where the engine computes them.

        Args:
            texts: Texts that fit the model.
            on_progress: Called with the number of texts of each finished batch.
            normalize: Scale the vectors to length 1 (default: as the model).

        Raises:
            DataError: A text is empty or too long for the model.

        Example:
            >>> import regard
            >>> embedder = regard.load_embedder("runs/encoder")
            >>> embedder.vectors(["the cat sits", "the dog barks"]).shape
            (2, 32)
        """
        texts, _ = named_texts(texts)
        rows = [self.encode_nonempty(text, number) for number, text in enumerate(texts, start=1)]
        return self.vectors_of_ids(rows, on_progress, normalize)

    def vectors_of_ids(
        self,
        rows: Sequence[list[int]],
        on_progress: Callable[[int], None] | None = None,
        normalize: bool | None = None,
    ) -> Vectors:
        """Return the vectors of texts that are ids already.

        Args:
            rows: Ids as of `encode`, with start and end token.
            on_progress: Called with the number of texts of each finished batch.
            normalize: Scale the vectors to length 1 (default: as the model).

        Raises:
            DataError: A row is too long for the model, or has an id that it does not know.

        Example:
            >>> import regard
            >>> embedder = regard.load_embedder("runs/encoder")
            >>> embedder.vectors_of_ids([embedder.encode("the cat sits")]).shape
            (1, 32)
        """
        for number, row in enumerate(rows, start=1):
            check_ids(np.array(self._check_length(row, number)), len(self.tokenizer))
        vectors = np.empty((len(rows), self._dim), np.float32)
        for batch in batches_by_length(rows):
            vectors[batch] = self._pooled([rows[row] for row in batch])
            if on_progress is not None:
                on_progress(len(batch))
        return unit(vectors) if (self.normalize if normalize is None else normalize) else vectors

    def _pooled(self, rows: Sequence[list[int]]) -> Vectors:
        """Return the pooled states (B, D) of rows of ids."""
        fast = self._fast if self._engine_pools else None
        if fast is not None:
            return fast.vectors(rows, self.pooling)
        import torch

        from regard.data.batches.base import pad

        ids, token_mask = (part.to(self.device) for part in pad(rows, self.tokenizer.pad))
        with torch.inference_mode():
            pooled = self.pool(self.model(ids, token_mask), token_mask)
        vectors: Vectors = pooled.float().cpu().numpy()
        return vectors

    def similarity(self, one: str, other: str) -> float:
        """Return the cosine similarity of two texts, from -1 to 1.

        Args:
            one: A text.
            other: Another text.

        Raises:
            DataError: A text is empty or too long for the model.

        Example:
            >>> import regard
            >>> embedder = regard.load_embedder("runs/encoder")
            >>> round(embedder.similarity("the cat sits", "the cat sits"), 3)
            1.0
        """
        vectors = self.vectors([one, other])
        return float(cosines(vectors[:1], vectors[1:])[0, 0])

    def encode(self, text: str, number: int = 1) -> list[int]:
        """Return the model's input ids for a text, with start and end token.

        Args:
            text: A text; may be empty.
            number: Number of the text in error messages (default: 1).

        Raises:
            DataError: The text has too many tokens for the model.

        Example:
            >>> import regard
            >>> embedder = regard.load_embedder("runs/encoder")
            >>> embedder.encode("the cat sits")[-1] == embedder.tokenizer.end
            True
        """
        return self._encode_text(text, number)

    def encode_nonempty(self, text: str, number: int = 1) -> list[int]:
        """Return the model's input ids for a text that has at least one token of its own.

        Args:
            text: A text.
            number: Number of the text in error messages (default: 1).

        Raises:
            DataError: The text is empty, or has too many tokens for the model.

        Example:
            >>> import regard
            >>> embedder = regard.load_embedder("runs/encoder")
            >>> embedder.encode_nonempty("the cat sits") == embedder.encode("the cat sits")
            True
        """
        ids = self.encode(text, number)
        if len(ids) == len(self.encode("")):
            raise DataError(f"text {number} is empty: there is no text to embed.")
        return ids


def unit(vectors: Vectors) -> Vectors:
    """Return vectors (N, D) divided by their lengths."""
    lengths = np.sqrt(np.square(vectors).sum(-1, keepdims=True))
    return np.asarray(vectors / np.maximum(lengths, np.float32(LEAST_LENGTH)))


def cosines(one: Vectors, other: Vectors) -> Vectors:
    """Return the cosine of every vector (N, D) with every other (M, D): (N, M)."""
    return np.asarray(unit(one) @ unit(other).T)


def nearest(vectors: Vectors, count: int, rows: int = 1024) -> list[tuple[float, int, int]]:
    """Return the most similar pairs: cosine and both indices, the most similar first."""
    pairs: list[tuple[float, int, int]] = []
    for start in range(0, len(vectors), rows):
        table = cosines(vectors[start : start + rows], vectors[start:])
        width = table.shape[1]
        table[
            np.tri(*table.shape, dtype=np.bool_)
        ] = -np.inf  # each pair once, and none with itself
        (values,), (indices,) = highest(table.reshape(1, -1), min(count, table.size))
        scored = zip(values.tolist(), indices.tolist(), strict=True)
        pairs += [
            (cosine, start + index // width, start + index % width)
            for cosine, index in scored
            if cosine > -np.inf
        ]
        pairs = sorted(pairs, reverse=True)[:count]
    return pairs
