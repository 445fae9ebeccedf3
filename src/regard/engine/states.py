"""The KV cache of the engine, and the steps that extend it.

Cached keys and values are never moved. Each step allocates a block with those of its new tokens,
and a state has their address for each token of each of its rows. Reordering a beam only reorders
this small table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.engine import library as c
from regard.engine.checks import check_ids, check_length
from regard.engine.numerics import Ids, Scores
from regard.engine.packing import PackedStack

Numbers = NDArray[np.int32]
Addresses = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """Keys and values of the source tokens of some rows, for all decoder layers."""

    blocks: tuple[Scores, ...]  # (source tokens, layers · 2 · H · K)
    addresses: Addresses  # (rows,), of the first token of each row
    count: Numbers  # (rows,)

    def reorder(self, rows: Ids) -> "Source":
        return replace(self, addresses=self.addresses[rows], count=self.count[rows])


@dataclass(frozen=True)
class FastState:
    """The KV cache of some rows: blocks, and the address of each token of each row in them."""

    blocks: tuple[Scores, ...] = ()  # one for each call: (rows, tokens, layers · 2 · keys)
    addresses: Addresses | None = None  # (rows, length)
    source: Source | None = None

    @property
    def length(self) -> int:
        return 0 if self.addresses is None else self.addresses.shape[1]

    def reorder(self, rows: Ids) -> "FastState":
        return replace(
            self,
            addresses=None if self.addresses is None else self.addresses[rows],
            source=None if self.source is None else self.source.reorder(rows),
        )

    def truncate(self, length: int) -> "FastState":
        return replace(
            self, addresses=None if self.addresses is None else self.addresses[:, :length]
        )


class Extension(NamedTuple):
    """Ids (B, T) to append to the rows of a state, and how many logits are wanted of each row."""

    ids: Ids
    state: FastState
    num_logits: int  # those of the last tokens, 0 to T


@dataclass(frozen=True)
class PackedDecoder:
    """The packed layers of a decoder and the sizes that limit its input."""

    packed: PackedStack
    capacity: int
    num_embeddings: int

    @property
    def stack(self) -> c.Stack:
        return self.packed.stack

    def check(self, ids: Ids, length: int) -> None:
        """Refuse ids that the embedding does not have, and texts that the positions do not."""
        check_length(length, self.capacity)
        check_ids(ids, self.num_embeddings)


class Step:
    """One call that extends several states at once, and the arrays that its arguments point to.

    Args:
        decoder: The decoder.
        extensions: What to append; states of any lengths, all with a source or none.
    """

    def __init__(self, decoder: PackedDecoder, extensions: Sequence[Extension]) -> None:
        stack = decoder.stack
        shapes = [extension.ids.shape for extension in extensions]
        for extension, (_, added) in zip(extensions, shapes, strict=True):
            decoder.check(extension.ids, extension.state.length + added)
        counts = [added for rows, added in shapes for _ in range(rows)]  # of each row
        num_logits = [e.num_logits for e in extensions for _ in range(len(e.ids))]
        self._ids = concatenated([extension.ids.ravel() for extension in extensions]).astype(
            np.int32
        )
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        past = [extension.state.length for extension in extensions for _ in extension.ids]
        self._past = np.array(past, np.int32)
        block = np.empty((len(self._ids), stack.layers * decoder.packed.cache_width), np.float32)
        self.states = list(_extended(extensions, block))
        self._addresses = concatenated([addresses_of(state).ravel() for state in self.states])
        sources = [state.source for state in self.states if state.source is not None]
        self._source = concatenated_sources(sources) if sources else None
        ends = self._starts[1:]
        if max(num_logits, default=0) > 1:
            rows = zip(ends.tolist(), num_logits, strict=True)
            self._outputs = concatenated(
                [np.arange(end - n, end, dtype=np.int32) for end, n in rows]
            )
        else:
            self._outputs = ends[np.array(num_logits) > 0] - 1
        logits = np.empty((len(self._outputs), stack.vocabulary), np.float32)
        self.logits = _split(logits, extensions)
        self.arguments = step_of(self._ids, self._past, self._addresses, self._source)
        self.arguments.starts, self.arguments.outputs = (
            address(self._starts),
            address(self._outputs),
        )
        self.arguments.num_outputs, self.arguments.logits = len(logits), address(logits)


def _extended(extensions: Sequence[Extension], block: Scores) -> Iterator[FastState]:
    """Yield each state with its part of the block."""
    first = 0
    for ids, state, _ in extensions:
        tokens = np.arange(first, first + ids.size, dtype=np.int64).reshape(ids.shape)
        new = address(block) + tokens * block.strides[0]
        addresses = np.concatenate([addresses_of(state, len(ids)), new], axis=1)
        yield replace(state, blocks=(*state.blocks, block), addresses=addresses)
        first += ids.size


def _split(logits: Scores, extensions: Sequence[Extension]) -> list[Scores]:
    """Return the logits (B, num_logits, V) of each extension, as parts of one array."""
    parts, first = [], 0
    for ids, _, count in extensions:
        size = len(ids) * count
        parts.append(logits[first : first + size].reshape(len(ids), count, logits.shape[1]))
        first += size
    return parts


def addresses_of(state: FastState, rows: int | None = None) -> Addresses:
    """Return the addresses of the state's tokens; the state must have so many rows."""
    if state.addresses is not None:
        addresses = state.addresses
    else:
        addresses = np.zeros((rows or 0, 0), np.int64)
    sources = len(addresses) if state.source is None else len(state.source.count)
    if rows is not None and not len(addresses) == rows == sources:
        raise ValueError(f"{rows} rows of ids for a state of {max(len(addresses), sources)} rows")
    return addresses


def concatenated_sources(sources: Sequence[Source]) -> Source:
    """Return several sources as one."""
    if len(sources) == 1:
        return sources[0]
    return Source(
        tuple(block for source in sources for block in source.blocks),
        np.concatenate([source.addresses for source in sources]),
        np.concatenate([source.count for source in sources]),
    )


def concatenated(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays; one alone is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def step_of(ids: Numbers, past: Numbers, addresses: Addresses, source: Source | None) -> c.Step:
    """Return the arguments of a step; the caller keeps the arrays alive."""
    step = c.Step(rows=len(past), ids=address(ids), past=address(past))
    step.cache = address(addresses)
    if source is not None:
        step.source, step.source_count = address(source.addresses), address(source.count)
    return step


def address(array: NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    return array.ctypes.data
