"""The recurrent models: what carried language before attention did, and attention's first home.

    model: {kind: recurrent}                        Bahdanau et al. 2015, where the job translates
    model: {kind: recurrent, cell: lstm, score: none}                      Sutskever et al. 2014

Each word's state is made from the one before it: a chain as long as the text, which cannot be
worked out in parallel, and along which all that is remembered has to travel. With attention, a
decoder looks at all states of the source instead of the last alone.
"""

from typing import ClassVar, TypeVar

from torch import Tensor, nn

from regard.attention.looking import Across
from regard.attention.scores import ScoreSpec
from regard.blocks.cells import Cell, CellSpec
from regard.blocks.recurrent import BothWaysBlock, ForwardBlock, LookingBlock
from regard.config import kind_field
from regard.models.classifier import Classifier
from regard.models.family import FamilySpec
from regard.models.initialise import draw
from regard.models.recurrence import (
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentStack,
    RecurrentState,
)

M = TypeVar("M", bound=nn.Module)


class RecurrentEncoderDecoder(nn.Module):
    """An encoder reads the source both ways; a decoder looks at its states and writes."""

    def __init__(self, encoder: RecurrentEncoder, decoder: RecurrentDecoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, source: Tensor, padding: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V) of the word after each of target (B, T), given source (B, S).

        padding (B, S) is True where a source word is real; both are padded on the right.
        """
        logits: Tensor = self.output(self.states(source, padding, target))
        return logits

    @property
    def output(self) -> nn.Linear:
        return self.decoder.output

    def states(
        self, source: Tensor, padding: Tensor, target: Tensor, _: Tensor | None = None
    ) -> Tensor:
        """What the output layer makes its logits of: (B, T, D)."""
        states: Tensor = self.decoder(target, self.start(source, padding))[0]
        return states

    def start(self, source: Tensor, padding: Tensor) -> RecurrentState:
        """Read the source."""
        return self.decoder.begin(*self.encoder.read(source, padding), padding)

    def step(self, ids: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Logits (B, V) after one more word each, ids (B,), and the state after it."""
        logits, state = self.extend(ids[:, None], state)
        return logits[:, -1], state

    def extend(self, ids: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Logits (B, T, V) after each of several words, ids (B, T), and the state after them."""
        states, state = self.decoder(ids, state)
        return self.output(states), state


class RecurrentLanguageModel(nn.Module):
    def __init__(self, decoder: RecurrentStack) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, ids: Tensor, documents: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of the word after each of ids (B, T), which are padded on the right.

        A row is one document, or several, numbered (B, T), each as if it were alone.
        """
        logits: Tensor = self.output(self.states(ids, documents))
        return logits

    @property
    def output(self) -> nn.Linear:
        return self.decoder.output

    def states(
        self, ids: Tensor, documents: Tensor | None = None, _: Tensor | None = None
    ) -> Tensor:
        """What the output layer makes its logits of: (B, T, D)."""
        states: Tensor = self.decoder(ids, RecurrentState(), documents)[0]
        return states

    def start(self) -> RecurrentState:
        return RecurrentState()

    def step(self, ids: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Logits (B, V) after one more word each, ids (B,), and the state after it."""
        logits, state = self.extend(ids[:, None], state)
        return logits[:, -1], state

    def extend(self, ids: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Logits (B, T, V) after each of several words, ids (B, T), and the state after them."""
        states, state = self.decoder(ids, state)
        return self.output(states), state


class Spec(FamilySpec):
    """model: {kind: recurrent, cell: gru, score: additive}"""

    can: ClassVar[frozenset[str]] = frozenset({"translate", "continue text", "classify"})

    cell: CellSpec = kind_field(CellSpec, "a kind in blocks/cells/")
    score: ScoreSpec = kind_field(
        ScoreSpec, "how a decoder looks at its source, a kind in attention/scores/"
    )

    def translator(self, vocabulary: int) -> RecurrentEncoderDecoder:
        tokens = nn.Embedding(vocabulary, self.dim)
        score = self.score.build(self.dim)
        looking = LookingBlock(self._cell(), None if score is None else Across(score))
        blocks = nn.ModuleList([looking, *self._forward_blocks(self.layers - 1)])
        decoder = RecurrentDecoder(
            self.embedding(tokens),
            blocks,
            first=nn.Linear(self.dim, self.layers * looking.cell.keeps * self.dim),
            readout=nn.Linear(3 * self.dim, self.dim),
            output=self.output(tokens),
            dropout=self.dropout,
        )
        return self._initialised(RecurrentEncoderDecoder(self._encoder(tokens), decoder))

    def writer(self, vocabulary: int) -> RecurrentLanguageModel:
        tokens = nn.Embedding(vocabulary, self.dim)
        blocks = nn.ModuleList(self._forward_blocks(self.layers))
        output = self.output(tokens)
        stack = RecurrentStack(self.embedding(tokens), blocks, output, self.dropout)
        return self._initialised(RecurrentLanguageModel(stack))

    def labeller(self, vocabulary: int) -> Classifier:
        encoder = self._encoder(nn.Embedding(vocabulary, self.dim))
        output = nn.Linear(self.dim, self.classes)
        pool = self.pooling.build(self.dim)
        return self._initialised(Classifier(encoder, pool, self.dropout, output))

    def _encoder(self, tokens: nn.Embedding) -> RecurrentEncoder:
        blocks = nn.ModuleList(
            BothWaysBlock(self._cell(), self._cell()) for _ in range(self.layers)
        )
        return RecurrentEncoder(self.embedding(tokens), blocks, self.dropout)

    def _forward_blocks(self, layers: int) -> list[ForwardBlock]:
        return [ForwardBlock(self._cell()) for _ in range(layers)]

    def _cell(self) -> Cell:
        return self.cell.build(self.dim, self.dim)

    def _initialised(self, model: M) -> M:
        """As all, but for cells, which have a way of their own."""
        draw(model, self.dim**-0.5)
        for module in model.modules():
            if isinstance(module, Cell):
                module.initialise()
        return model
