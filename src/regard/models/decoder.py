"""The decoder stack: masked blocks and a linear layer to the vocabulary.

Alone it is a language model; given a source to look across at, the second half of an
encoder-decoder. Its state is an argument: none in training, everything said so far in decoding.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache, LayerCache
from regard.attention.masks import AttentionMask, positions_in_documents
from regard.layers.decoder import CachedInput, DecoderBlock
from regard.models.embedding import Embedding


@dataclass(frozen=True)
class DecoderState:
    """What a decoder has said and sees: what each layer keeps of it, and how many words."""

    length: int = 0
    past: tuple[LayerCache, ...] = ()  # one for each layer, once something has been said
    source: tuple[KVCache, ...] = ()  # one for each layer, where there is a source
    source_mask: Tensor | None = None  # (B, S), True = a real word

    def reorder(self, rows: Tensor) -> "DecoderState":
        """The same for the rows of the batch named by index, in that order."""
        source_mask = self.source_mask
        return replace(
            self,
            past=tuple(memory.reorder(rows) for memory in self.past),
            source=tuple(memory.reorder(rows) for memory in self.source),
            source_mask=None if source_mask is None else source_mask.index_select(0, rows),
        )

    def truncate(self, length: int) -> "DecoderState":
        """The state when only the first `length` words had been said."""
        return replace(
            self, length=length, past=tuple(memory.truncate(length) for memory in self.past)
        )


class Decoder(nn.Module):
    def __init__(
        self, embedding: Embedding, blocks: nn.ModuleList, norm: nn.Module, output: nn.Linear
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.norm = norm
        self.output = output

    def start(self) -> DecoderState:
        """The state before the first word, where there is no source."""
        return DecoderState()

    def read(self, encoder: nn.Module, source: Tensor, source_mask: Tensor) -> DecoderState:
        """The state before the first word, given a source (B, S) and where it is real."""
        return self.look_at(encoder(source, source_mask), source_mask)

    def look_at(self, source: Tensor, source_mask: Tensor) -> DecoderState:
        """The same, given an encoder's states (B, S, D); each layer keeps its own of them."""
        positions = torch.arange(source.size(1), device=source.device)
        crosses = (cast("DecoderBlock", block).cross for block in self.blocks)
        remembered = (
            each.project_keys_values(source, positions) for each in crosses if each is not None
        )
        return DecoderState(source=tuple(remembered), source_mask=source_mask)

    def forward(
        self,
        ids: Tensor,
        state: DecoderState,
        documents: Tensor | None = None,
        needed: Tensor | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """What the output layer is given for each of the new ids: (B, T, D), and the state after.

        Rows are padded on the right, where no real word can see: no padding mask is needed. Words
        of one document, by number (B, T), see no other, and their places begin anew; what was said
        before is one document with what is said now, so there is none then. Words whose answer does
        not count (B, T) need not be thought over; none that counts may come after them.
        """
        length = ids.size(1)
        x = self.embedding(
            ids, state.length if documents is None else positions_in_documents(documents)
        )
        back = replace(
            AttentionMask.causal(state.length, length, ids.device, documents), needed=needed
        )
        source_mask = state.source_mask
        across = AttentionMask.cross(length, source_mask) if source_mask is not None else None
        memories = []
        for layer, block in enumerate(self.blocks):
            past = CachedInput(state.past[layer] if state.past else None, back)
            source = CachedInput(state.source[layer], across) if across is not None else None
            x, memory = block(x, past, source)
            memories.append(memory)
        return self.norm(x), replace(state, length=state.length + length, past=tuple(memories))
