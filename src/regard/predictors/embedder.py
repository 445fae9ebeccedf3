"""A reader: texts to vectors, with an encoder."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches.base import pad
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError
from regard.models.encoder import Encoder
from regard.predictors.encode_text import whole_text

BATCH = 64


def mean(states: Tensor, token_mask: Tensor) -> Tensor:
    return (states * token_mask.unsqueeze(-1)).sum(1) / token_mask.sum(1, keepdim=True)


def first(states: Tensor, _token_mask: Tensor) -> Tensor:
    return states[:, 0]


def largest(states: Tensor, token_mask: Tensor) -> Tensor:
    return states.masked_fill(~token_mask.unsqueeze(-1), float("-inf")).amax(1)


# How the states of a text's words (B, T, D), where they are real (B, T), become one vector (B, D).
POOLING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": mean,
    "first": first,
    "max": largest,
}


class Embedder:
    """What `regard.load` gives for an encoder."""

    def __init__(
        self,
        model: Encoder,
        tokenizer: Tokenizer,
        max_length: int,
        pooling: str = "mean",
        normalise: bool = True,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.pooling, self.normalise = pooling, normalise

    @torch.inference_mode()
    def embed(
        self, texts: Sequence[str], on_progress: Callable[[int], None] | None = None
    ) -> Tensor:
        """A vector for each text (N, D), of length 1 unless this model's are not.

        `on_progress` is told how many more texts are done.
        """
        rows = [self._whole(text, number) for number, text in enumerate(texts, start=1)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # little padding
        device = next(self.model.parameters()).device
        vectors = torch.empty(len(rows), self.model.embedding.tokens.embedding_dim)
        for start in range(0, len(rows), BATCH):
            several = order[start : start + BATCH]
            ids, token_mask = pad([rows[i] for i in several], self.tokenizer.pad)
            states = self.model(ids.to(device), token_mask.to(device))
            vectors[several] = POOLING[self.pooling](states, token_mask.to(device)).float().cpu()
            if on_progress is not None:
                on_progress(len(several))
        return F.normalize(vectors, dim=-1) if self.normalise else vectors

    def similarity(self, one: str, other: str) -> float:
        """How alike two texts are: the cosine of the angle between their vectors, -1 to 1."""
        vectors = self.embed([one, other])
        return float(cosines(vectors[:1], vectors[1:]))

    def ids(self, text: str, number: int = 1) -> list[int]:
        """What this model is given for a text; refuses what it cannot take."""
        return whole_text(text, number, self.tokenizer, self.max_length)

    def _whole(self, text: str, number: int) -> list[int]:
        ids = self.ids(text, number)
        if len(ids) == len(self.ids("")):
            raise DataError(f"text {number} is empty: there is nothing in it to read.")
        return ids


def cosines(one: Tensor, other: Tensor) -> Tensor:
    """Of every vector (N, D) with every other (M, D): (N, M)."""
    return F.normalize(one, dim=-1) @ F.normalize(other, dim=-1).T


def nearest(vectors: Tensor, count: int, rows: int = 1024) -> list[tuple[float, int, int]]:
    """The pairs that are most alike: cosine and both places, the most alike first."""
    found: list[tuple[float, int, int]] = []
    for start in range(0, len(vectors), rows):
        table = cosines(vectors[start : start + rows], vectors[start:])
        table = table.masked_fill(torch.ones_like(table).tril().bool(), float("-inf"))
        best = table.flatten().topk(min(count, table.numel()))
        width = table.size(1)
        places = ((start + at // width, start + at % width) for at in best.indices.tolist())
        pairs = zip(best.values.tolist(), places, strict=True)
        found += [(each, *place) for each, place in pairs if each > float("-inf")]
        found = sorted(found, reverse=True)[:count]
    return found
