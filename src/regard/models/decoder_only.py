"""The decoder-only sequence-to-sequence model (Transformer-D, Liu et al. 2018): source and target
are one sequence.

    source … </s> <s> target …

The target is generated as the continuation of the source, with the target's first token between the
two. One causal stack processes both, so that every causal attention kind can be used.

Source and target of a row are concatenated without a gap and padded on the right, where no real
token attends to the padding: a row does not depend on the rest of the batch. In decoding, rows with
sources of equal length are decoded together.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from regard.models.autoregressive import Seq2SeqModel
from regard.models.base import Capability
from regard.models.decoder import Decoder, DecoderState, build_decoder
from regard.models.init_weights import initialized
from regard.models.transformer import TransformerSpec


@dataclass(frozen=True)
class Group:
    """Rows of a batch whose sources have the same number of tokens."""

    rows: Tensor  # indices in the batch, ascending
    source_length: int
    state: DecoderState


@dataclass(frozen=True)
class GroupedState:
    """The decoder states of a batch, one for each group of rows."""

    groups: tuple[Group, ...]

    def reorder(self, rows: Tensor) -> "GroupedState":
        """The state for a batch of the rows with these indices, in this order."""
        groups = []
        for group in self.groups:
            positions, members = (rows[:, None] == group.rows).nonzero(as_tuple=True)
            if len(positions):
                state = group.state.reorder(members)
                groups.append(replace(group, rows=positions, state=state))
        return GroupedState(tuple(groups))

    def truncate(self, length: int) -> "GroupedState":
        """The state after only the first `length` target tokens."""
        return GroupedState(
            tuple(
                replace(group, state=group.state.truncate(group.source_length + length))
                for group in self.groups
            )
        )


class DecoderOnly(Seq2SeqModel):
    """A sequence-to-sequence model of one decoder."""

    single_sequence: ClassVar[bool] = True
    decoder: Decoder

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def states(
        self, source: Tensor, source_mask: Tensor, target: Tensor, needed: Tensor | None = None
    ) -> Tensor:
        target_mask = torch.ones_like(target, dtype=torch.bool) if needed is None else needed
        token_mask = torch.cat([source_mask, target_mask], dim=1)
        order = (~token_mask).long().argsort(dim=1, stable=True)[:, : int(token_mask.sum(1).max())]
        ids = torch.cat([source, target], dim=1).gather(1, order)
        start = self.decoder.start()
        states: Tensor = self.decoder(ids, start, needed=token_mask.gather(1, order))[0]
        # A token that is not needed may lie past the end of the sequence: any state will do for it.
        offsets = torch.arange(target.size(1), device=target.device)
        positions = source_mask.sum(1, keepdim=True) + offsets
        positions = positions.clamp(max=states.size(1) - 1)
        return states.gather(1, positions[:, :, None].expand(-1, -1, states.size(2)))

    def start(self, source: Tensor, source_mask: Tensor) -> GroupedState:
        """Process the source (B, S) and return the state before the first target token."""
        lengths, groups = source_mask.sum(1), []
        for length in sorted(set(lengths.tolist())):
            rows = (lengths == length).nonzero()[:, 0]
            ids = source[rows][source_mask[rows]].view(len(rows), length)
            groups.append(Group(rows, length, self.decoder(ids, self.decoder.start())[1]))
        return GroupedState(tuple(groups))

    def extend(self, ids: Tensor, state: GroupedState) -> tuple[Tensor, GroupedState]:
        hidden, groups = [], []
        for group in state.groups:
            states, after = self.decoder(ids[group.rows], group.state)
            hidden.append(states)
            groups.append(replace(group, state=after))
        batch_order = torch.cat([group.rows for group in groups]).argsort()
        return self.output(torch.cat(hidden)[batch_order]), GroupedState(tuple(groups))


class Spec(TransformerSpec):
    """model: {kind: decoder-only}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"seq2seq"})
    single_sequence: ClassVar[bool] = True

    tie_embeddings: bool = Field(
        True, description="the output layer shares the embedding's weights"
    )
    output_bias: bool = Field(False, description="a bias in the output layer")

    def build(self, vocabulary: int) -> DecoderOnly:
        decoder = build_decoder(self, vocabulary, self.tie_embeddings, self.output_bias)
        return initialized(DecoderOnly(decoder), self)
