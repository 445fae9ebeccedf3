"""Models that decode through the engine: the same Stepper, the same answers, less waiting.

Keys and values are never moved. Each step leaves a block behind with those of its rows; a state
knows, for each of its rows, which row of each block it descends from. To reorder a beam is to
reorder that small table.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.engine import library as c
from regard.engine.packing import Matrix, PackedStack, UnsupportedError, stacked
from regard.errors import DataError
from regard.models.decoder import Decoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel

Numbers = NDArray[np.int32]
Numbers64 = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """Keys and values of all source words, for all decoder layers, and where each row's lie."""

    memory: Tensor  # (source words, layers · 2 · H · K)
    start: Numbers  # (rows,)
    count: Numbers

    def reorder(self, rows: Any) -> "Source":
        return replace(self, start=self.start[rows], count=self.count[rows])


@dataclass(frozen=True)
class FastState:
    length: int = 0
    blocks: tuple[Tensor, ...] = ()  # one for each reading: (words, rows, layers · 2 · keys)
    places: Numbers64 | None = None  # (length,), where in memory each word's rows are
    ancestors: Numbers | None = None  # (rows, length)
    source: Source | None = None

    def reorder(self, rows: Tensor) -> "FastState":
        chosen = rows.numpy()
        return replace(
            self,
            ancestors=None if self.ancestors is None else self.ancestors[chosen],
            source=None if self.source is None else self.source.reorder(chosen),
        )

    def truncate(self, length: int) -> "FastState":
        kept = None if self.ancestors is None else self.ancestors[:, :length]
        places = None if self.places is None else self.places[:length]
        return replace(self, length=length, places=places, ancestors=kept)


class FastDecoder:
    """A decoder, with a source or without."""

    def __init__(self, decoder: Any, capacity: int, bits: int) -> None:
        found = c.library()
        if found is None:
            raise UnsupportedError("there is no compiled engine")
        if not isinstance(decoder, Decoder):
            raise UnsupportedError(f"decoder {type(decoder).__name__}")
        self._call, self._greedy = found.regard_step, found.regard_greedy
        self.capacity = capacity
        self.packed = PackedStack(
            decoder.embedding, list(decoder.blocks), decoder.norm, decoder.output, capacity, bits
        )

    def extend(self, ids: Tensor, state: FastState, wanted: int) -> tuple[Tensor, FastState]:
        """Logits (B, wanted, V) after the last `wanted` of the new ids (B, T), and the state."""
        rows, count = ids.shape
        stack, past = self.packed.stack, state.length
        if past + count > self.capacity:
            raise DataError(f"this model takes {self.capacity:,} tokens and was given more.")
        new = torch.empty(count, rows, stack.layers * self.packed.kept_width)
        said = new.data_ptr() + np.arange(count, dtype=np.int64) * new.stride(0) * 4
        if state.places is not None:
            said = np.concatenate([state.places, said])
        own = np.arange(rows, dtype=np.int32)[:, None].repeat(count, axis=1)
        before = _ancestors(state, rows)
        given = np.ascontiguousarray(ids.numpy().T, dtype=np.int32)
        logits = torch.empty(wanted, rows, stack.vocabulary)
        step = _step(given, said, before, state.source)
        step.count, step.wanted, step.logits = count, wanted, logits.data_ptr()
        self._call(ctypes.byref(stack), ctypes.byref(step), torch.get_num_threads())
        after = replace(
            state,
            length=past + count,
            blocks=(*state.blocks, new),
            places=said,
            ancestors=np.concatenate([before, own], axis=1),
        )
        return logits.transpose(0, 1), after

    def greedy(
        self, ids: Tensor, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        """What greedy decoding says after ids (B,), all of it in one call."""
        if state.length + max(limits) > self.capacity:
            raise DataError(f"this model takes {self.capacity:,} tokens and was given more.")
        rows, given = len(ids), ids.numpy().astype(np.int32)
        said = np.zeros(0, np.int64) if state.places is None else state.places
        most, counts = np.array(limits, np.int32), np.zeros(rows, np.int32)
        words, before = np.zeros((rows, max(limits)), np.int32), _ancestors(state, rows)
        greedy = c.Greedy(
            step=_step(given, said, before, state.source),
            limits=most.ctypes.data,
            end=end,
            longest=max(limits),
            words=words.ctypes.data,
            counts=counts.ctypes.data,
        )
        threads = torch.get_num_threads()
        self._greedy(ctypes.byref(self.packed.stack), ctypes.byref(greedy), threads)
        return [row[:count].tolist() for row, count in zip(words, counts, strict=True)]


def _ancestors(state: FastState, rows: int) -> Numbers:
    before = state.ancestors
    return np.zeros((rows, 0), np.int32) if before is None else np.ascontiguousarray(before)


def _step(given: Numbers, said: Numbers64, before: Numbers, source: Source | None) -> c.Step:
    """What comes after what was said; whoever calls keeps the arrays alive."""
    step = c.Step(rows=len(before), past=before.shape[1])
    step.ids, step.said, step.ancestors = (each.ctypes.data for each in (given, said, before))
    if source is not None:
        step.source = source.memory.data_ptr()
        step.source_start, step.source_count = source.start.ctypes.data, source.count.ctypes.data
    return step


class FastLanguageModel:
    def __init__(self, model: LanguageModel, capacity: int, bits: int = 32) -> None:
        self.decoder = FastDecoder(model.decoder, capacity, bits)

    def start(self) -> FastState:
        return FastState()

    def step(self, ids: Tensor, state: FastState) -> tuple[Tensor, FastState]:
        logits, state = self.decoder.extend(ids[:, None], state, wanted=1)
        return logits[:, 0], state

    def extend(self, ids: Tensor, state: FastState) -> tuple[Tensor, FastState]:
        return self.decoder.extend(ids, state, wanted=ids.size(1))

    def greedy(
        self, first: Tensor, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        return self.decoder.greedy(first, state, end, limits)


class FastEncoderDecoder:
    def __init__(self, model: EncoderDecoder, capacity: int, bits: int = 32) -> None:
        self.decoder = FastDecoder(model.decoder, capacity, bits)
        encoder: Any = model.encoder
        self.encoder = PackedStack(
            encoder.embedding, list(encoder.blocks), encoder.norm, None, capacity, bits
        )
        # One matrix for the keys and values of all decoder layers: the source is read once.
        maps: list[nn.Linear] = []
        for block in model.decoder.blocks:
            maps += [block.cross.w_k, block.cross.w_v]  # type: ignore[union-attr, list-item]
        self.remember: Matrix = stacked(maps, bits, room=self.decoder.packed.kept_width // 2)
        found = c.library()
        assert found is not None
        self._encode = found.regard_encode

    def start(self, source: Tensor, source_mask: Tensor) -> FastState:
        """Read the sources (B, S), whose words are real where padding (B, S) says so."""
        count = source_mask.sum(1).numpy().astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
        ids = source[source_mask].numpy().astype(np.int32)
        if int(count.max()) > self.decoder.capacity:
            raise DataError(
                f"this model takes {self.decoder.capacity:,} tokens and was given more."
            )
        states = torch.empty(len(ids), self.encoder.stack.dim)
        encoding = c.Encoding(
            sentences=len(count),
            tokens=len(ids),
            ids=ids.ctypes.data,
            starts=starts.ctypes.data,
            states=states.data_ptr(),
        )
        self._encode(
            ctypes.byref(self.encoder.stack), ctypes.byref(encoding), torch.get_num_threads()
        )
        return FastState(source=Source(self.remember(states), starts[:-1].copy(), count))

    def step(self, ids: Tensor, state: FastState) -> tuple[Tensor, FastState]:
        logits, state = self.decoder.extend(ids[:, None], state, wanted=1)
        return logits[:, 0], state

    def extend(self, ids: Tensor, state: FastState) -> tuple[Tensor, FastState]:
        return self.decoder.extend(ids, state, wanted=ids.size(1))

    def greedy(
        self, first: Tensor, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        return self.decoder.greedy(first, state, end, limits)
