"""Embed texts: a vector for each text, pooled from the states of an encoder."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config import validate
from regard.data.batches.base import pad
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError
from regard.layers.pooling.base import PoolingSpec
from regard.models.encoder import Encoder
from regard.predictors.base import BasePredictor, named_texts

BATCH = 64


class Embedder(BasePredictor[Encoder]):
    """Predictor of an imported encoder: a vector for each text.

    Args:
        model: The encoder.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens of a text.
        pooling: "mean" (default), "first" or "max" of the token states.
        normalize: Scale the vectors to length 1 (default: True).
    """

    def __init__(
        self,
        model: Encoder,
        tokenizer: Tokenizer,
        max_length: int,
        pooling: str = "mean",
        normalize: bool = True,
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        dim = model.embedding.tokens.embedding_dim
        self.pool = validate(PoolingSpec, pooling, "pooling").build(dim)
        self.pooling, self.normalize = pooling, normalize

    @torch.inference_mode()
    def embed(
        self, texts: Sequence[str], on_progress: Callable[[int], None] | None = None
    ) -> Tensor:
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
        texts, _ = named_texts(texts)
        rows = [self._encode_nonempty(text, number) for number, text in enumerate(texts, start=1)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # little padding
        device = self.device
        vectors = torch.empty(len(rows), self.model.embedding.tokens.embedding_dim)
        for start in range(0, len(rows), BATCH):
            batch = order[start : start + BATCH]
            ids, token_mask = pad([rows[i] for i in batch], self.tokenizer.pad)
            states = self.model(ids.to(device), token_mask.to(device))
            vectors[batch] = self.pool(states, token_mask.to(device)).float().cpu()
            if on_progress is not None:
                on_progress(len(batch))
        return F.normalize(vectors, dim=-1) if self.normalize else vectors

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
        vectors = self.embed([one, other])
        return float(cosines(vectors[:1], vectors[1:]))

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

    def _encode_nonempty(self, text: str, number: int) -> list[int]:
        ids = self.encode(text, number)
        if len(ids) == len(self.encode("")):
            raise DataError(f"text {number} is empty: there is no text to embed.")
        return ids


def cosines(one: Tensor, other: Tensor) -> Tensor:
    """Return the cosine of every vector (N, D) with every other (M, D): (N, M)."""
    return F.normalize(one, dim=-1) @ F.normalize(other, dim=-1).T


def nearest(vectors: Tensor, count: int, rows: int = 1024) -> list[tuple[float, int, int]]:
    """Return the most similar pairs: cosine and both indices, the most similar first."""
    pairs: list[tuple[float, int, int]] = []
    for start in range(0, len(vectors), rows):
        table = cosines(vectors[start : start + rows], vectors[start:])
        table = table.masked_fill(torch.ones_like(table).tril().bool(), float("-inf"))
        best = table.flatten().topk(min(count, table.numel()))
        width = table.size(1)
        indices = ((start + i // width, start + i % width) for i in best.indices.tolist())
        scored = zip(best.values.tolist(), indices, strict=True)
        pairs += [(cosine, *both) for cosine, both in scored if cosine > float("-inf")]
        pairs = sorted(pairs, reverse=True)[:count]
    return pairs
