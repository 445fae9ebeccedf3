"""The stacks of the recurrent baseline: a bidirectional encoder, a decoder with attention to a
source and the stack of a language model. The state is an argument, as in a Transformer.

The first layer of a stack takes the embeddings; each further layer has a residual connection.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask, positions_in_documents
from regard.layers.base import PerTokenModule
from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import RecurrentAttentionBlock
from regard.models.embedding import Embedding


@dataclass(frozen=True)
class RecurrentState:
    """All states of a recurrent model so far: the last for decoding, the others for `truncate`."""

    length: int = 0
    past: tuple[
        Tensor, ...
    ] = ()  # of each layer (B, 1 + length, N): the initial state, then one for each token
    source: KVCache | None = None  # with attention to a source
    source_mask: Tensor | None = None  # (B, S), True = a real token
    summary: Tensor | None = None  # (B, D), the final state of the encoder

    def reorder(self, rows: Tensor) -> "RecurrentState":
        """The state for a batch of the rows with these indices, in this order."""
        token_mask, summary = self.source_mask, self.summary
        return replace(
            self,
            past=tuple(states.index_select(0, rows) for states in self.past),
            source=None if self.source is None else self.source.reorder(rows),
            source_mask=None if token_mask is None else token_mask.index_select(0, rows),
            summary=None if summary is None else summary.index_select(0, rows),
        )

    def truncate(self, length: int) -> "RecurrentState":
        """The state after only the first `length` tokens."""
        past = tuple(states[:, : length + 1] for states in self.past)
        return replace(self, length=length, past=past)

    def last(self, layer: int) -> Tensor | None:
        return self.past[layer][:, -1] if self.past else None

    def after(self, new: list[Tensor]) -> "RecurrentState":
        """The state extended by the new states (B, T, N) of each layer."""
        past = self.past or tuple(torch.zeros_like(states[:, :1]) for states in new)
        return replace(
            self,
            length=self.length + new[0].size(1),
            past=tuple(torch.cat(pair, dim=1) for pair in zip(past, new, strict=True)),
        )


class RecurrentEncoder(nn.Module):
    """A stack of bidirectional recurrent layers."""

    def __init__(self, embedding: Embedding, blocks: nn.ModuleList, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Hidden states (B, T, D) of ids (B, T); token_mask (B, T) is True for real tokens."""
        return self.encode(ids, token_mask)[0]

    def encode(self, ids: Tensor, token_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Hidden states (B, T, D), and the final state of both directions (B, D)."""
        x, ends = self.blocks[0](self.embedding(ids), token_mask)
        for block in list(self.blocks)[1:]:
            residual, ends = block(self.dropout(x), token_mask)
            x = x + residual
        return self.dropout(x), ends


class RecurrentDecoder(PerTokenModule):
    """A decoder whose first layer attends to the source before each token.

    initial state                s_0 = tanh(W_0 a),   a: the final state of the encoder
    input of the output layer    tanh(W [s_t; c_t; y_{t−1}])
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

    def encode_source(
        self, encoder: nn.Module, source: Tensor, source_mask: Tensor
    ) -> RecurrentState:
        """Encode a source (B, S) and return the state before the first token."""
        states, summary = cast("RecurrentEncoder", encoder).encode(source, source_mask)
        cross = cast("RecurrentAttentionBlock", self.blocks[0]).cross
        initial = self.first(summary).tanh().chunk(len(self.blocks), dim=-1)
        return RecurrentState(
            past=tuple(state[:, None] for state in initial),
            source=None if cross is None else cross.project_keys_values(states),
            source_mask=source_mask,
            summary=summary,
        )

    def forward(
        self,
        ids: Tensor,
        state: RecurrentState,
        documents: None = None,
        needed: Tensor | None = None,
    ) -> tuple[Tensor, RecurrentState]:
        """Hidden states (B, T, D) before the output layer for the new ids (B, T), and the state
        after them; `needed` saves nothing here."""
        attending = cast("RecurrentAttentionBlock", self.blocks[0])
        embedded = self.embedding(ids)
        assert state.source_mask is not None
        mask = AttentionMask.cross(1, state.source_mask)
        current, states, contexts = state.last(0), [], []
        for inputs in attending.cell.w_x(embedded).unbind(1):
            current, context = attending(inputs, current, state.summary, state.source, mask)
            states.append(current)
            contexts.append(context)
        new = [torch.stack(states, dim=1)]
        x = attending.cell.output(new[0])
        for layer, block in list(enumerate(self.blocks))[1:]:
            residual, layer_states = block(self.dropout(x), state.last(layer))
            x = x + residual
            new.append(layer_states)
        combined = torch.cat([x, torch.stack(contexts, dim=1), embedded], dim=-1)
        return self.dropout(self.readout(combined).tanh()), state.after(new)


class RecurrentStack(nn.Module):
    """The stack of a recurrent language model."""

    def __init__(
        self, embedding: Embedding, blocks: nn.ModuleList, output: nn.Linear, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.output = output
        self.dropout = Dropout(dropout)

    def start(self) -> RecurrentState:
        """Return the state before the first token."""
        return RecurrentState()

    def forward(
        self,
        ids: Tensor,
        state: RecurrentState,
        documents: Tensor | None = None,
        needed: Tensor | None = None,
    ) -> tuple[Tensor, RecurrentState]:
        """Hidden states (B, T, D) before the output layer for the new ids (B, T), and the state
        after them; the state is reset at the start of each document (numbers (B, T))."""
        starts = None if documents is None else positions_in_documents(documents) == 0
        x, states = self.blocks[0](self.embedding(ids), state.last(0), starts)
        new = [states]
        for layer, block in list(enumerate(self.blocks))[1:]:
            residual, states = block(self.dropout(x), state.last(layer), starts)
            x = x + residual
            new.append(states)
        return self.dropout(x), state.after(new)
