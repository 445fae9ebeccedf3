"""The stacks of recurrent models: an encoder that reads both ways, a decoder that looks at what was
read, and one that only goes on. Their state is an argument, as it is in a Transformer.

The first layer of a stack reads the embeddings; each further one adds to what it is given.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask, positions_in_documents
from regard.layers.base import PerTokenModule
from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import LookingBlock
from regard.models.embedding import Embedding


@dataclass(frozen=True)
class RecurrentState:
    """What a recurrent model has been through, so that any of it can be gone back to.

    The last state is all that it needs to go on: the ones before are kept for `cut`.
    """

    length: int = 0
    past: tuple[Tensor, ...] = ()  # of each layer (B, 1 + length, N): before all words, after each
    source: KVCache | None = None  # where a source is looked at
    source_mask: Tensor | None = None  # (B, S), True = a real word
    summary: Tensor | None = None  # (B, D), what the encoder ended with

    def reorder(self, rows: Tensor) -> "RecurrentState":
        """The same for the rows of the batch named by index, in that order."""
        token_mask, summary = self.source_mask, self.summary
        return replace(
            self,
            past=tuple(states.index_select(0, rows) for states in self.past),
            source=None if self.source is None else self.source.reorder(rows),
            source_mask=None if token_mask is None else token_mask.index_select(0, rows),
            summary=None if summary is None else summary.index_select(0, rows),
        )

    def truncate(self, length: int) -> "RecurrentState":
        """The state when only the first `length` words had been said."""
        past = tuple(states[:, : length + 1] for states in self.past)
        return replace(self, length=length, past=past)

    def last(self, layer: int) -> Tensor | None:
        return self.past[layer][:, -1] if self.past else None

    def after(self, new: list[Tensor]) -> "RecurrentState":
        """The state when each layer has gone through these too (B, T, N)."""
        past = self.past or tuple(torch.zeros_like(states[:, :1]) for states in new)
        return replace(
            self,
            length=self.length + new[0].size(1),
            past=tuple(torch.cat(each, dim=1) for each in zip(past, new, strict=True)),
        )


class RecurrentEncoder(nn.Module):
    def __init__(self, embedding: Embedding, blocks: nn.ModuleList, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """States (B, T, D) of ids (B, T); padding (B, T) is True where a word is real."""
        return self.read(ids, token_mask)[0]

    def read(self, ids: Tensor, token_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same, and the state in which reading ended (B, D): what it would carry alone."""
        x, ends = self.blocks[0](self.embedding(ids), token_mask)
        for block in list(self.blocks)[1:]:
            more, ends = block(self.dropout(x), token_mask)
            x = x + more
        return self.dropout(x), ends


class RecurrentDecoder(PerTokenModule):
    """Writes word by word, looking at a source in its first layer before each.

    state before the first word    s_0 = tanh(W_0 a),   a where the encoder ended
    what the output layer is given     tanh(W [s_t; c_t; y_{t−1}])
    """

    def __init__(
        self,
        embedding: Embedding,
        blocks: nn.ModuleList,
        first: nn.Linear,
        readout: nn.Linear,
        output: nn.Linear,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.first = first
        self.readout = readout
        self.output = output
        self.dropout = Dropout(dropout)

    def read(self, encoder: nn.Module, source: Tensor, token_mask: Tensor) -> RecurrentState:
        """The state before the first word, given a source (B, S) and where it is real."""
        states, summary = cast("RecurrentEncoder", encoder).read(source, token_mask)
        cross = cast("LookingBlock", self.blocks[0]).cross
        firsts = self.first(summary).tanh().chunk(len(self.blocks), dim=-1)
        return RecurrentState(
            past=tuple(each[:, None] for each in firsts),
            source=None if cross is None else cross.project_keys_values(states),
            source_mask=token_mask,
            summary=summary,
        )

    def forward(
        self,
        ids: Tensor,
        state: RecurrentState,
        documents: None = None,
        needed: Tensor | None = None,
    ) -> tuple[Tensor, RecurrentState]:
        """What the output layer is given for each of the new ids (B, T): (B, T, D); and the state
        after them. All words are thought over, whether they count or not."""
        looking = cast("LookingBlock", self.blocks[0])
        words = self.embedding(ids)
        assert state.source_mask is not None
        mask = AttentionMask.cross(1, state.source_mask)
        now, lived, contexts = state.last(0), [], []
        for given in looking.cell.w_x(words).unbind(1):
            now, context = looking(given, now, state.summary, state.source, mask)
            lived.append(now)
            contexts.append(context)
        new = [torch.stack(lived, dim=1)]
        x = looking.cell.said(new[0])
        for layer, block in list(enumerate(self.blocks))[1:]:
            more, states = block(self.dropout(x), state.last(layer))
            x = x + more
            new.append(states)
        together = torch.cat([x, torch.stack(contexts, dim=1), words], dim=-1)
        return self.dropout(self.readout(together).tanh()), state.after(new)


class RecurrentStack(nn.Module):
    """Goes on with a text: what it has read is all in its state."""

    def __init__(
        self, embedding: Embedding, blocks: nn.ModuleList, output: nn.Linear, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.output = output
        self.dropout = Dropout(dropout)

    def start(self) -> RecurrentState:
        """The state before anything was read."""
        return RecurrentState()

    def forward(
        self,
        ids: Tensor,
        state: RecurrentState,
        documents: Tensor | None = None,
        needed: Tensor | None = None,
    ) -> tuple[Tensor, RecurrentState]:
        """What the output layer is given for each of the new ids (B, T): (B, T, D); and the state
        after them. With documents, by number (B, T), each begins with nothing read."""
        begins = None if documents is None else positions_in_documents(documents) == 0
        x, states = self.blocks[0](self.embedding(ids), state.last(0), begins)
        new = [states]
        for layer, block in list(enumerate(self.blocks))[1:]:
            more, states = block(self.dropout(x), state.last(layer), begins)
            x = x + more
            new.append(states)
        return self.dropout(x), state.after(new)
