"""Recorded activations: tensors by the name of a module and a point in it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from regard.atomic import write_atomic
from regard.errors import DataError, RegardError
from regard.json_files import parse_json

Numbers = npt.NDArray[np.float32]

# Axis of the tokens at each point, to concatenate chunks by; keys and values are of other tokens.
TOKEN_AXIS = {"weights": 2, "queries": 2, "head_outputs": 2, "scores": 2, "may_attend": 2}
TOKEN_AXIS |= {"output": 1, "residual": 1, "activations": 1, "experts": 1}


class Seen:
    """Activations recorded by `watch`."""

    def __init__(self) -> None:
        # For each call its chunks: one tensor, or one a token inside a PerTokenModule.
        self._records: dict[tuple[str, str], list[list[Tensor]]] = {}

    def record(self, name: str, point: str, tensor: Tensor) -> None:
        """Add the tensor of one more call of a module."""
        self._records.setdefault((name, point), []).append([tensor])

    def call_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of calls recorded for each module and point."""
        return {key: len(calls) for key, calls in self._records.items()}

    def join(self, module: str, since: Mapping[tuple[str, str], int]) -> None:
        """Join the calls inside a module since these counts to one call, with a chunk a token."""
        for (name, point), calls in self._records.items():
            if not module or name.startswith(f"{module}."):
                first = since.get((name, point), 0)
                chunks = [chunk for call in calls[first:] for chunk in call]
                calls[first:] = [chunks] if chunks else []

    def names(self, point: str = "weights") -> list[str]:
        """Return the names of the modules recorded at a point, in the order of their first call."""
        return [name for name, recorded in self._records if recorded == point]

    def points(self, name: str) -> list[str]:
        """Return the points recorded for a module."""
        return [point for module, point in self._records if module == name]

    def calls(self, name: str, point: str = "weights") -> list[Tensor]:
        """Return one tensor for each call of a module."""
        return [_concatenated(chunks, point) for chunks in self._calls(name, point)]

    def chunks(self, name: str, point: str = "weights") -> list[Tensor]:
        """Return the tensors of the last call as the model used them: one, or one a token."""
        return self._calls(name, point)[-1]

    def last(self, name: str, point: str) -> Tensor:
        """Return the tensor of the last call of a module."""
        return _concatenated(self.chunks(name, point), point)

    def weights(self, name: str) -> Tensor:
        """Return the attention weights (B, H, T, S) of the last call of an attention."""
        return self.last(name, "weights")

    def over_steps(self, name: str, point: str = "weights") -> Tensor:
        """Return one tensor for all calls of a module, such as the steps of decoding.

        Calls are concatenated along their tokens. A step attends to the tokens so far: weights and
        scores are padded with zeros to the most keys, (B, H, steps, S). With the KV cache of a
        window, key 0 of a step is the first that it still has.

        Raises:
            RegardError: calls have different numbers of rows, as the first and the later steps of
                a beam search, or the point has no token axis.
        """
        calls = self.calls(name, point)
        if point not in TOKEN_AXIS:
            raise RegardError(f"'{point}' of '{name}' is not of the tokens of a step; use calls.")
        rows = sorted({len(call) for call in calls})
        if len(rows) > 1:
            raise RegardError(
                f"'{name}' was called with {rows[0]} and with {rows[-1]} rows; decode one text, "
                f"greedily, or use calls."
            )
        longest = max(call.size(-1) for call in calls)
        padded = [nn.functional.pad(call, (0, longest - call.size(-1))) for call in calls]
        return torch.cat(padded, dim=TOKEN_AXIS[point])

    def has(self, blocks: str, attention: str) -> bool:
        """Return whether weights were recorded for this attention in any block of a stack."""
        return any(_is_in(name, blocks, attention) for name in self.names())

    def by_layer(self, blocks: str, attention: str, point: str = "weights") -> Numbers:
        """Return the first row of the batch in every layer of a stack: (layers, …).

        Layers with fewer heads than others are padded with zeros.
        """
        names = [name for name in self.names(point) if _is_in(name, blocks, attention)]
        layers = [as_numpy(self.last(name, point)[0]) for name in names]
        most = max(map(len, layers))
        return np.stack(
            [
                np.pad(layer, [(0, most - len(layer))] + [(0, 0)] * (layer.ndim - 1))
                for layer in layers
            ]
        )

    def to_numpy(self) -> dict[str, Numbers]:
        """Return the tensors of the last call of every module.

        Keys are the name of the module, a space, and the point, as in
        "decoder.blocks.0.attention weights"; `names` and `points` list both.
        """
        return {
            f"{name} {point}": as_numpy(self.last(name, point)) for name, point in self._records
        }

    def to_table(self) -> pa.Table:
        """Return all attention weights as a table: name, call, row, head, query, key, weight."""
        tables = []
        for name in self.names():
            for call, tensor in enumerate(self.calls(name)):
                weights = as_numpy(tensor)
                row, head, query, key = (index.ravel() for index in np.indices(weights.shape))
                columns = {"call": np.full(weights.size, call), "row": row, "head": head}
                columns |= {"query": query, "key": key, "weight": weights.ravel()}
                names = pa.array([name] * weights.size).dictionary_encode()
                tables.append(pa.table({"name": names, **columns}))
        return pa.concat_tables(tables).unify_dictionaries() if tables else pa.table({})

    def save(self, path: Path | str) -> None:
        """Write everything to a safetensors file, atomically."""
        keys, tensors = [], {}
        for (name, point), calls in self._records.items():
            keys.append([name, point, len(calls)])
            for call, tensor in enumerate(self.calls(name, point)):
                tensors[f"{name} {point} {call}"] = tensor.detach().cpu().contiguous().clone()
        write_atomic(Path(path), save(tensors, metadata={"seen": json.dumps(keys)}))

    @classmethod
    def load(cls, path: Path | str) -> "Seen":
        """Read what `save` wrote; raises DataError where the file is not of that form."""
        seen = cls()
        try:
            with safe_open(str(path), "pt") as file:
                keys = parse_json((file.metadata() or {})["seen"], str(path), DataError)
                for name, point, calls in keys:
                    for call in range(calls):
                        seen.record(name, point, file.get_tensor(f"{name} {point} {call}"))
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"{path}: not a file written by Seen.save, or damaged ({error})."
            ) from None
        return seen

    def _calls(self, name: str, point: str) -> list[list[Tensor]]:
        try:
            return self._records[name, point]
        except KeyError:
            raise RegardError(
                f"nothing was recorded of '{name}' at '{point}'; recorded: "
                f"{', '.join(self.names(point))}."
            ) from None


def as_numpy(tensor: Tensor) -> Numbers:
    """Return a tensor as a float32 array on the CPU."""
    numbers: Numbers = tensor.detach().float().cpu().numpy()
    return numbers


def _concatenated(chunks: Sequence[Tensor], point: str) -> Tensor:
    """Concatenate the chunks of one call; points without a token axis are the same in all."""
    if len(chunks) == 1 or point not in TOKEN_AXIS:
        return chunks[-1]
    return torch.cat(list(chunks), dim=TOKEN_AXIS[point])


def _is_in(name: str, blocks: str, attention: str) -> bool:
    """Return whether this is the attention of that name in a block of that stack."""
    block, _, last = name.rpartition(".")
    return block.rpartition(".")[0] == blocks and last == attention
