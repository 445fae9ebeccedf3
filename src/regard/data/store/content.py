"""Digest of what a token store gives to training: ids, labels and texts in order, and the pieces.

Two stores with the same digest train the same model, wherever their text was read and with whatever
version they were built. Locations and hashes of records are not part of it, nor how rows are cut
into record batches.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from regard.data.store.mmap import MappedFile
from regard.data.store.store import NUMBERS, TEXTS
from regard.data.tokenizers.tokenizer import SPECIAL_ROLES, Tokenizer

SPLITS = ("train", "dev", "test")
STRINGS = ("text_0", "text_1", "alternatives")

Update = Callable[[str, Any], None]


def content_digest(folder: Path, tokenizer: Tokenizer, labels: Sequence[str]) -> str:
    """Return the digest of the store in a folder."""
    roles = [getattr(tokenizer, role) for role in SPECIAL_ROLES]
    whole = hashlib.blake2b(digest_size=16)
    whole.update(json.dumps([tokenizer.fingerprint, roles, list(labels)]).encode())
    for split in SPLITS:
        if (folder / f"{split}.arrow").exists():
            whole.update(f"{split}\0{_split_digest(folder / f'{split}.arrow')}".encode())
    return whole.hexdigest()


def _split_digest(path: Path) -> str:
    """Return the digest of a split: one hash for each part of each column."""
    hashes: dict[str, Any] = {}

    def update(part: str, data: Any) -> None:
        hashes.setdefault(part, hashlib.blake2b(digest_size=16)).update(data)

    for batch in MappedFile(path):
        for name in batch.schema.names:
            if name in (*TEXTS, *NUMBERS):
                _add_lists(name, batch.column(name), update)
            elif name == "source":
                update(name, batch.column(name).to_numpy())
            elif name in STRINGS:
                update(name, json.dumps(batch.column(name).to_pylist())[1:-1].encode() + b",")
    return json.dumps({part: digest.hexdigest() for part, digest in sorted(hashes.items())})


def _add_lists(name: str, column: pa.ListArray, update: Update) -> None:
    update(f"{name}: lengths", np.diff(column.offsets.to_numpy()).astype(np.int64))
    update(f"{name}: values", column.flatten().to_numpy())
