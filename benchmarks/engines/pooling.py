"""Sentence vectors of engines that compute states: batches in order of length, and means."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Decode, Work
from numpy.typing import NDArray

Array = NDArray[Any]
# States (B, T, D) of rows of ids, which may have any values behind the end of a row.
States = Callable[[list[list[int]]], Array]


def embedder(work: Work, states: States) -> Decode:
    """Return a function from texts to unit vectors: means of the states of a text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(work.model) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def embed(lines: list[str]) -> list[Any]:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(lines)]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        vectors: list[Any] = [None] * len(rows)
        for start in range(0, len(order), work.batch):
            group = order[start : start + work.batch]
            for row, state in zip(group, states([rows[row] for row in group]), strict=True):
                mean = state[: len(rows[row])].mean(0)
                vectors[row] = mean / np.linalg.norm(mean)
        return vectors

    return embed


def padded(rows: list[list[int]]) -> tuple[Array, Array]:
    """Return ids (B, T), padded by 0, and the mask of the tokens as integers."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = np.concatenate(rows)
    return ids, mask.astype(np.int64)
