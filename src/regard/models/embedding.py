"""From token ids to vectors that know where they stand (Vaswani et al. 2017, sections 3.4, 5.4).

x = dropout(norm(√D · E[id] + position))       the norm is BERT's; usually there is none
"""

from torch import Tensor, nn

from regard.layers.base import ResidualModule
from regard.layers.dropout import Dropout
from regard.positions.base import AtEmbedding
from regard.positions.trees import Trees


class Embedding(ResidualModule):
    def __init__(
        self,
        tokens: nn.Embedding,
        position: AtEmbedding,
        scale: float,
        norm: nn.Module,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.position = position
        self.scale = scale
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, places: int | Tensor = 0, trees: Trees | None = None) -> Tensor:
        """ids (B, T), the first of which stands at this place, or each at its own (B, T)
        → (B, T, D)."""
        placed = self.position.on(trees)(self.tokens(ids) * self.scale, places)
        embedded: Tensor = self.dropout(self.norm(placed))
        return embedded
