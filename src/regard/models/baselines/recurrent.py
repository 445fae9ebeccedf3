"""The recurrent baseline: a translator, language model or classifier of GRU or LSTM cells.

    model: {kind: recurrent}                               as a translator: Bahdanau et al. 2015
    model: {kind: recurrent, cell: lstm, score: none}      as a translator: Sutskever et al. 2014

Each state is computed from the previous one, so that a text cannot be processed in parallel and all
information passes through one vector. With attention, a decoder uses all states of the source and
not only the last.
"""

from typing import ClassVar, TypeVar

from torch import nn

from regard.attention.recurrent import RecurrentCrossAttention
from regard.attention.scores.base import ScoreSpec
from regard.config import kind_field
from regard.layers.recurrent.base import Cell, CellSpec
from regard.layers.recurrent.stack import BidirectionalBlock, ForwardBlock, RecurrentAttentionBlock
from regard.models.base import Capability
from regard.models.baselines.base import BaselineSpec
from regard.models.baselines.recurrent_layers import (
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentStack,
)
from regard.models.classifier import ClassifierModel
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.init_weights import initialize
from regard.models.language_model import LanguageModel

M = TypeVar("M", bound=nn.Module)


class Spec(BaselineSpec):
    """model: {kind: recurrent, cell: gru, score: additive}"""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {"seq2seq", "causal-lm", "sequence-classification"}
    )

    cell: CellSpec = kind_field(CellSpec, "a kind in layers/recurrent/")
    score: ScoreSpec = kind_field(
        ScoreSpec, "the decoder's attention to its source, a kind in attention/scores/"
    )

    def build_seq2seq(self, vocabulary: int) -> EncoderDecoder:
        tokens = nn.Embedding(vocabulary, self.dim)
        score = self.score.build(self.dim)
        attending = RecurrentAttentionBlock(
            self._cell(), None if score is None else RecurrentCrossAttention(score)
        )
        blocks = nn.ModuleList([attending, *self._forward_blocks(self.layers - 1)])
        decoder = RecurrentDecoder(
            self.embedding(tokens),
            blocks,
            first=nn.Linear(self.dim, self.layers * attending.cell.state_vectors * self.dim),
            readout=nn.Linear(3 * self.dim, self.dim),
            output=self.output(tokens),
            dropout=self.dropout,
        )
        return self._initialized(EncoderDecoder(self._encoder(tokens), decoder))

    def build_causal_lm(self, vocabulary: int) -> LanguageModel:
        tokens = nn.Embedding(vocabulary, self.dim)
        blocks = nn.ModuleList(self._forward_blocks(self.layers))
        output = self.output(tokens)
        stack = RecurrentStack(self.embedding(tokens), blocks, output, self.dropout)
        return self._initialized(LanguageModel(stack))

    def build_classifier(self, vocabulary: int) -> ClassifierModel:
        encoder = self._encoder(nn.Embedding(vocabulary, self.dim))
        output = nn.Linear(self.dim, self.classes)
        pool = self.pooling.build(self.dim)
        return self._initialized(ClassifierModel(encoder, pool, self.dropout, output))

    def _encoder(self, tokens: nn.Embedding) -> RecurrentEncoder:
        blocks = nn.ModuleList(
            BidirectionalBlock(self._cell(), self._cell()) for _ in range(self.layers)
        )
        return RecurrentEncoder(self.embedding(tokens), blocks, self.dropout)

    def _forward_blocks(self, layers: int) -> list[ForwardBlock]:
        return [ForwardBlock(self._cell()) for _ in range(layers)]

    def _cell(self) -> Cell:
        return self.cell.build(self.dim, self.dim)

    def _initialized(self, model: M) -> M:
        """Initialize the model; cells have an initialization of their own."""
        initialize(model, self.dim**-0.5)
        for module in model.modules():
            if isinstance(module, Cell):
                module.initialize()
        return model
