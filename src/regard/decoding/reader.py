"""A reader: texts to vectors, with an encoder."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.batching import pad
from regard.data.tokenizer import Tokenizer
from regard.decoding.texts import whole_text
from regard.models.encoder import Encoder

BATCH = 64


class Reader:
    """What `regard.load` gives for an encoder."""

    def __init__(self, model: Encoder, tokenizer: Tokenizer, max_length: int) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """A vector of length 1 for each text (N, D): the mean of its words' states."""
        rows = [self.ids(text, number) for number, text in enumerate(texts, start=1)]
        device = next(self.model.parameters()).device
        vectors = []
        for start in range(0, len(rows), BATCH):
            ids, real = (t.to(device) for t in pad(rows[start : start + BATCH], self.tokenizer.pad))
            states = self.model(ids, real) * real.unsqueeze(-1)
            vectors.append(states.sum(1) / real.sum(1, keepdim=True))
        return torch.nn.functional.normalize(torch.cat(vectors), dim=-1).cpu()

    def ids(self, text: str, number: int = 1) -> list[int]:
        """What this model is given for a text; refuses what it cannot take."""
        return whole_text(text, number, self.tokenizer, self.max_length)
