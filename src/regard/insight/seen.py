"""What was seen inside a model: tensors by the name of a part and a point in it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from regard.atomic import write_atomic
from regard.errors import DataError, RegardError

Numbers = npt.NDArray[np.float32]

# Where a point has its words, to put pieces together by; keys and values are of other words.
WORDS = {"weights": 2, "queries": 2, "found": 2, "scores": 2, "visible": 2}
WORDS |= {"output": 1, "residual": 1, "activations": 1, "experts": 1}


class Seen:
    def __init__(self) -> None:
        # Of each call the pieces it came in: one, or one a word.
        self._records: dict[tuple[str, str], list[list[Tensor]]] = {}

    def record(self, name: str, point: str, tensor: Tensor) -> None:
        self._records.setdefault((name, point), []).append([tensor])

    def so_far(self) -> dict[tuple[str, str], int]:
        """How often each point was recorded."""
        return {key: len(calls) for key, calls in self._records.items()}

    def join(self, part: str, since: Mapping[tuple[str, str], int]) -> None:
        """What was recorded since then of all that is inside a part is one call, word by word."""
        for (name, point), calls in self._records.items():
            if not part or name.startswith(f"{part}."):
                first = since.get((name, point), 0)
                pieces = [piece for call in calls[first:] for piece in call]
                calls[first:] = [pieces] if pieces else []

    def names(self, point: str = "weights") -> list[str]:
        """The parts of which this was seen, in the order in which they first ran."""
        return [name for name, seen in self._records if seen == point]

    def points(self, name: str) -> list[str]:
        """What was seen of a part."""
        return [point for each, point in self._records if each == name]

    def calls(self, name: str, point: str = "weights") -> list[Tensor]:
        """One tensor for each time the part ran while watched."""
        return [_whole(pieces, point) for pieces in self._calls(name, point)]

    def pieces(self, name: str, point: str = "weights") -> list[Tensor]:
        """Of the last time the part ran, what the model itself went on with: one, or one a word."""
        return self._calls(name, point)[-1]

    def last(self, name: str, point: str) -> Tensor:
        """Of the last time the part ran."""
        return _whole(self.pieces(name, point), point)

    def weights(self, name: str) -> Tensor:
        """Attention weights (B, H, T, S) of the last time the attention ran."""
        return self.last(name, "weights")

    def has(self, blocks: str, attention: str) -> bool:
        """Did this attention of some layer of a stack look at anything?"""
        return any(_is_in(name, blocks, attention) for name in self.names())

    def stack(self, blocks: str, attention: str, point: str = "weights") -> Numbers:
        """Of the first row, what was seen in every layer of a stack: (layers, …).

        Where layers have fewer heads than others, those that are not there look at nothing.
        """
        names = [name for name in self.names(point) if _is_in(name, blocks, attention)]
        layers = [as_numpy(self.last(name, point)[0]) for name in names]
        most = max(map(len, layers))
        return np.stack(
            [np.pad(each, [(0, most - len(each))] + [(0, 0)] * (each.ndim - 1)) for each in layers]
        )

    def to_numpy(self) -> dict[str, Numbers]:
        """Everything of the last time each part ran, by "name point"."""
        return {
            f"{name} {point}": as_numpy(self.last(name, point)) for name, point in self._records
        }

    def to_table(self) -> pa.Table:
        """All attention weights, one a line: whose, in which row, from which word to which."""
        tables = []
        for name in self.names():
            for call, tensor in enumerate(self.calls(name)):
                weights = as_numpy(tensor)
                row, head, query, key = (each.ravel() for each in np.indices(weights.shape))
                columns = {"call": np.full(weights.size, call), "row": row, "head": head}
                columns |= {"query": query, "key": key, "weight": weights.ravel()}
                names = pa.array([name] * weights.size).dictionary_encode()
                tables.append(pa.table({"name": names, **columns}))
        return pa.concat_tables(tables).unify_dictionaries() if tables else pa.table({})

    def save(self, path: Path | str) -> None:
        """Write everything to a file (safetensors), whole or not at all."""
        keys, tensors = [], {}
        for (name, point), calls in self._records.items():
            keys.append([name, point, len(calls)])
            for call, tensor in enumerate(self.calls(name, point)):
                tensors[f"{name} {point} {call}"] = tensor.detach().cpu().contiguous().clone()
        write_atomic(Path(path), save(tensors, metadata={"seen": json.dumps(keys)}))

    @classmethod
    def load(cls, path: Path | str) -> "Seen":
        seen = cls()
        try:
            with safe_open(str(path), "pt") as file:
                for name, point, calls in json.loads((file.metadata() or {})["seen"]):
                    for call in range(calls):
                        seen.record(name, point, file.get_tensor(f"{name} {point} {call}"))
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise DataError(
                f"{path}: is not what Seen.save writes, or damaged ({error})."
            ) from None
        return seen

    def _calls(self, name: str, point: str) -> list[list[Tensor]]:
        try:
            return self._records[name, point]
        except KeyError:
            raise RegardError(
                f"nothing was seen of '{name}' at '{point}'; seen: {', '.join(self.names(point))}."
            ) from None


def as_numpy(tensor: Tensor) -> Numbers:
    numbers: Numbers = tensor.detach().float().cpu().numpy()
    return numbers


def _whole(pieces: Sequence[Tensor], point: str) -> Tensor:
    """Pieces of one call put together; what is not of the words that came one by one is the same
    in all of them."""
    if len(pieces) == 1 or point not in WORDS:
        return pieces[-1]
    return torch.cat(list(pieces), dim=WORDS[point])


def _is_in(name: str, blocks: str, attention: str) -> bool:
    """Is this the attention of that name in some block of that stack?"""
    block, _, last = name.rpartition(".")
    return block.rpartition(".")[0] == blocks and last == attention
