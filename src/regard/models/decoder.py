"""The decoder: a stack of causal blocks and a linear layer to the vocabulary.

Alone it is a language model; with cross-attention to a source it is the second half of an
encoder-decoder. Its state is an argument: empty in training, the KV cache of all earlier tokens in
decoding.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache, LayerCache
from regard.attention.masks import AttentionMask, positions_in_documents
from regard.layers.decoder import CachedInput, DecoderBlock
from regard.models.embedding import Embedding
from regard.models.transformer import TransformerSpec, decoder_blocks, embedding, final_norm


@dataclass(frozen=True)
class DecoderState:
    """The state of a decoder between two calls: the caches of its layers."""

    length: int = 0  # tokens decoded so far
    past: tuple[LayerCache, ...] = ()  # of each layer; empty before the first token
    source: tuple[KVCache, ...] = ()  # of each layer's cross-attention; empty without a source
    source_mask: Tensor | None = None  # (B, S), True = a real token

    def reorder(self, rows: Tensor) -> "DecoderState":
        """The state for a batch of the rows with these indices, in this order."""
        source_mask = self.source_mask
        return replace(
            self,
            past=tuple(cache.reorder(rows) for cache in self.past),
            source=tuple(cache.reorder(rows) for cache in self.source),
            source_mask=None if source_mask is None else source_mask.index_select(0, rows),
        )

    def truncate(self, length: int) -> "DecoderState":
        """The state after only the first `length` tokens."""
        past = tuple(cache.truncate(length) for cache in self.past)
        return replace(self, length=length, past=past)


class Decoder(nn.Module):
    """A stack of decoder blocks between a token embedding and an output layer."""

    def __init__(
        self, embedding: Embedding, blocks: nn.ModuleList, norm: nn.Module, output: nn.Linear
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.norm = norm
        self.output = output

    def start(self) -> DecoderState:
        """Return the state before the first token, without a source."""
        return DecoderState()

    def encode_source(
        self, encoder: nn.Module, source: Tensor, source_mask: Tensor
    ) -> DecoderState:
        """Encode a source (B, S) and return the state before the first token."""
        return self.start_from(encoder(source, source_mask), source_mask)

    def start_from(self, source_states: Tensor, source_mask: Tensor) -> DecoderState:
        """Return the state before the first token, given an encoder's states (B, S, D).

        The keys and values of each layer's cross-attention are computed here, once.
        """
        positions = torch.arange(source_states.size(1), device=source_states.device)
        attentions = (cast("DecoderBlock", block).cross for block in self.blocks)
        caches = (
            attention.project_keys_values(source_states, positions)
            for attention in attentions
            if attention is not None
        )
        return DecoderState(source=tuple(caches), source_mask=source_mask)

    def forward(
        self,
        ids: Tensor,
        state: DecoderState,
        documents: Tensor | None = None,
        needed: Tensor | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """Process new tokens.

        Args:
            ids: the new tokens (B, T), padded on the right. Causal attention never reaches that
                padding from a real token, so no padding mask is needed.
            state: the state before them.
            documents: the document number of each token (B, T), where a row holds several. No
                token attends to another document, and positions start at 0 in each. Only for an
                empty state.
            needed: (B, T), True where the result is used; None means everywhere. A layer may skip
                the other tokens; no needed token may follow one that is not.

        Returns:
            The hidden states (B, T, D) before the output layer, and the state after `ids`.
        """
        length = ids.size(1)
        x = self.embedding(
            ids, state.length if documents is None else positions_in_documents(documents)
        )
        causal = AttentionMask.causal(state.length, length, ids.device, documents)
        causal = replace(causal, needed=needed)
        source_mask = state.source_mask
        cross = AttentionMask.cross(length, source_mask) if source_mask is not None else None
        caches = []
        for layer, block in enumerate(self.blocks):
            past = CachedInput(state.past[layer] if state.past else None, causal)
            source = CachedInput(state.source[layer], cross) if cross is not None else None
            x, cache = block(x, past, source)
            caches.append(cache)
        return self.norm(x), replace(state, length=state.length + length, past=tuple(caches))


def build_decoder(
    spec: TransformerSpec, vocabulary: int, tie_embeddings: bool, output_bias: bool
) -> Decoder:
    """Build a decoder without cross-attention."""
    tokens = nn.Embedding(vocabulary, spec.dim)
    output = nn.Linear(spec.dim, vocabulary, output_bias)
    if tie_embeddings:
        output.weight = tokens.weight
    blocks = decoder_blocks(spec, spec.layers)
    return Decoder(embedding(spec, tokens), blocks, final_norm(spec), output)
