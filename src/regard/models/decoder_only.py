"""The decoder only (Transformer-D, Liu et al. 2018): source and target are one sequence.

    source … </s> <s> target …

What is written is the continuation of what is read; the target's first word stands between the two.
One causal stack does both, so that any kind of attention that looks back serves the source as well.

Rows are put together without a gap, and padding goes to the right, where no real word sees it: each
row is as if it were alone. In decoding, rows that have read as much go on together.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.models.base import Capability
from regard.models.decoder import Decoder, DecoderState
from regard.models.init_weights import initialise
from regard.models.prune import keep_heads
from regard.models.transformer import TransformerSpec, decoder_blocks, embedding, final_norm


@dataclass(frozen=True)
class Group:
    """Rows whose sources are of one length."""

    rows: Tensor  # where they stand in the batch, from the first on
    read: int  # words of each source
    state: DecoderState


@dataclass(frozen=True)
class GroupedState:
    """What has been read and said, by groups of rows that are equally far."""

    groups: tuple[Group, ...]

    def reorder(self, rows: Tensor) -> "GroupedState":
        kept = []
        for group in self.groups:
            places, which = (rows[:, None] == group.rows).nonzero(as_tuple=True)
            if len(places):
                kept.append(replace(group, rows=places, state=group.state.reorder(which)))
        return GroupedState(tuple(kept))

    def truncate(self, length: int) -> "GroupedState":
        """The state when only the first `length` words had been said."""
        return GroupedState(
            tuple(
                replace(each, state=each.state.truncate(each.read + length)) for each in self.groups
            )
        )


class DecoderOnly(nn.Module):
    single_sequence: ClassVar[bool] = True

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) of the word after each of target (B, T), given source (B, S).

        padding (B, S) is True where a source word is real; targets are padded on the right.
        """
        logits: Tensor = self.output(self.states(source, source_mask, target))
        return logits

    @property
    def output(self) -> nn.Linear:
        return self.decoder.output

    def states(
        self, source: Tensor, source_mask: Tensor, target: Tensor, needed: Tensor | None = None
    ) -> Tensor:
        """What the output layer makes its logits of: (B, T, D), where it is counted (B, T)."""
        wanted = torch.ones_like(target, dtype=torch.bool) if needed is None else needed
        token_mask = torch.cat([source_mask, wanted], dim=1)
        order = (~token_mask).long().argsort(dim=1, stable=True)[:, : int(token_mask.sum(1).max())]
        ids = torch.cat([source, target], dim=1).gather(1, order)
        start = self.decoder.start()
        states: Tensor = self.decoder(ids, start, needed=token_mask.gather(1, order))[0]
        # A word that does not count may have found no place; what is told of it does not matter.
        places = source_mask.sum(1, keepdim=True) + torch.arange(
            target.size(1), device=target.device
        )
        places = places.clamp(max=states.size(1) - 1)
        return states.gather(1, places[:, :, None].expand(-1, -1, states.size(2)))

    def start(self, source: Tensor, source_mask: Tensor) -> GroupedState:
        """Read the source."""
        lengths, groups = source_mask.sum(1), []
        for read in sorted(set(lengths.tolist())):
            rows = (lengths == read).nonzero()[:, 0]
            ids = source[rows][source_mask[rows]].view(len(rows), read)
            groups.append(Group(rows, read, self.decoder(ids, self.decoder.start())[1]))
        return GroupedState(tuple(groups))

    def step(self, ids: Tensor, state: GroupedState) -> tuple[Tensor, GroupedState]:
        """Logits (B, V) after one more word each, ids (B,), and the state after it."""
        logits, state = self.extend(ids[:, None], state)
        return logits[:, -1], state

    def extend(self, ids: Tensor, state: GroupedState) -> tuple[Tensor, GroupedState]:
        """Logits (B, T, V) after each of several words, ids (B, T), and the state after them."""
        found, groups = [], []
        for group in state.groups:
            states, after = self.decoder(ids[group.rows], group.state)
            found.append(states)
            groups.append(replace(group, state=after))
        back = torch.cat([group.rows for group in groups]).argsort()
        return self.output(torch.cat(found)[back]), GroupedState(tuple(groups))


class Spec(TransformerSpec):
    """model: {kind: decoder-only}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"seq2seq"})
    single_sequence: ClassVar[bool] = True

    tie_embeddings: bool = Field(
        True, description="the output layer shares the embedding's weights"
    )
    output_bias: bool = Field(False, description="a bias in the output layer")

    def build(self, vocabulary: int) -> DecoderOnly:
        tokens = nn.Embedding(vocabulary, self.dim)
        output = nn.Linear(self.dim, vocabulary, self.output_bias)
        if self.tie_embeddings:
            output.weight = tokens.weight
        blocks = decoder_blocks(self, self.layers)
        model = DecoderOnly(Decoder(embedding(self, tokens), blocks, final_norm(self), output))
        initialise(model, self)
        keep_heads(model, self.retained_heads)
        return model
