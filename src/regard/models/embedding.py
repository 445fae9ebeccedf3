"""Token embedding with positions (Vaswani et al. 2017, sections 3.4 and 5.4).

x = dropout(norm(√D · E[id] + position))       norm: as in BERT; by default the identity
"""

from torch import Tensor, nn

from regard.layers.base import ResidualModule
from regard.layers.dropout import Dropout
from regard.positions.base import AtEmbedding
from regard.positions.trees import Trees


class Embedding(ResidualModule):
    """From token ids to the input vectors of a stack."""

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

    def forward(
        self, ids: Tensor, positions: int | Tensor = 0, trees: Trees | None = None
    ) -> Tensor:
        """Embed tokens.

        Args:
            ids: tokens (B, T).
            positions: position of the first token, or of each token (B, T).
            trees: dependency trees of the texts, for positions that need them.

        Returns:
            Vectors (B, T, D).
        """
        x = self.position.on(trees)(self.tokens(ids) * self.scale, positions)
        embedded: Tensor = self.dropout(self.norm(x))
        return embedded
