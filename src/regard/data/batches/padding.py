"""Rows of ids as one array, padded on the right to the longest of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Sequence[int] | NDArray[Any]


def pad_rows(rows: Sequence[Row], pad_id: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return rows of ids as one array (B, T), and its token mask (B, T)."""
    return fill_rows(rows, np.array([len(row) for row in rows]), pad_id)


def fill_rows(
    chunks: Sequence[Row], lengths: NDArray[Any], pad_id: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return rows of these lengths, filled with the concatenated chunks, and their token mask."""
    token_mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(token_mask.shape, pad_id)
    ids[token_mask] = np.concatenate(chunks)
    return ids, token_mask
