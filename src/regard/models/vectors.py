"""Seeding an embedding with pretrained vectors, to be trained on or kept as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from regard.models.embedding import Embedding


@dataclass(frozen=True)
class Seeded:
    found: int
    missing: int


def seed(
    embedding: Embedding,
    words: Sequence[str],
    vectors: Mapping[str, npt.NDArray[np.float32]],
    frozen: bool,
) -> Seeded:
    """Row i becomes the vector of words[i], as written or in lower case, where there is one.

    The forward pass multiplies rows by a scale; dividing by it here lets the vectors themselves
    enter the network. Rows without a vector keep their random start and always learn.
    """
    weight = embedding.tokens.weight
    seeded = torch.zeros(len(words), dtype=torch.bool)
    for row, word in enumerate(words):
        vector = vectors.get(word, vectors.get(word.lower()))
        if vector is not None:
            weight.data[row] = torch.from_numpy(vector) / embedding.scale
            seeded[row] = True
    if frozen:
        rows = seeded[:, None]  # where the gradient will be, the model may yet move to
        weight.register_hook(lambda gradient: gradient.masked_fill(rows.to(gradient.device), 0.0))
    found = int(seeded.sum())
    return Seeded(found, len(words) - found)
