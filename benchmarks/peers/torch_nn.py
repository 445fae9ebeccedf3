"""Train torch.nn.Transformer in a plain loop, as a careful user would write it.

It uses what PyTorch offers: the causal mask is passed as a hint, so that the fused attention needs
no mask in the decoder; padding of the target is on the right, where the causal mask excludes it;
Adam is fused.

torch.nn.Transformer also has dropout on attention weights and inside the feed-forward network. The
former would disable fused attention on the CPU, and no other peer has it, so both are off unless
--stock-dropout is given.
"""

import math

import search
import torch
from common import DIM, DROPOUT, FFN_DIM, HEADS, LAYERS, Corpus, parser
from loop import Peer, limit, run, smoothed_cross_entropy
from torch import Tensor, nn


def sinusoids(length: int) -> Tensor:
    """Position vectors (length, D) of Vaswani et al. 2017, section 3.5."""
    position = torch.arange(length)[:, None]
    angle = position * torch.exp(torch.arange(0, DIM, 2) * (-math.log(10_000) / DIM))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class Translator(Peer):
    """Embedding, nn.Transformer, and the tied embedding as output layer."""

    positions: Tensor

    def __init__(self, corpus: Corpus, norm_first: bool, stock_dropout: bool) -> None:
        super().__init__()
        self.corpus = corpus
        self.embedding = nn.Embedding(corpus.vocabulary, DIM, padding_idx=corpus.pad)
        # Scaled by √D, tokens enter with variance 1; unscaled, as output, logits are of order 1.
        nn.init.normal_(self.embedding.weight, std=DIM**-0.5)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            DIM, HEADS, LAYERS, LAYERS, FFN_DIM, DROPOUT, batch_first=True, norm_first=norm_first
        )
        self.register_buffer("positions", sinusoids(1024), persistent=False)
        if not stock_dropout:
            self._drop_only_sublayers()

    def _drop_only_sublayers(self) -> None:
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(ids) * math.sqrt(DIM) + self.positions[: ids.size(1)]
        dropped: Tensor = self.dropout(embedded)
        return dropped

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        memory: Tensor = self.transformer.encoder(
            self.embed(source), src_key_padding_mask=~source_mask
        )
        return memory

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        size = target.size(1)
        hidden: Tensor = self.transformer.decoder(
            self.embed(target),
            memory,
            tgt_mask=torch.ones(size, size, dtype=torch.bool).triu(1),
            tgt_is_causal=True,
            memory_key_padding_mask=~source_mask,
        )
        return hidden

    def output(self, hidden: Tensor) -> Tensor:
        return nn.functional.linear(hidden, self.embedding.weight)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        memory = self.encode(source, source_mask)
        logits = self.output(self.decode(target[:, :-1], memory, source_mask))
        return smoothed_cross_entropy(logits, target[:, 1:], self.corpus.pad)

    def translate(self, source: Tensor, source_mask: Tensor, beam: int) -> list[list[int]]:
        memory = self.encode(source, source_mask)

        def next_logits(prefix: Tensor, rows: Tensor) -> Tensor:
            return self.output(self.decode(prefix, memory[rows], source_mask[rows])[:, -1])

        arguments = (len(source), self.corpus.start, self.corpus.end, limit(source))
        if beam == 1:
            return search.greedy(next_logits, *arguments)
        return search.beam(next_logits, *arguments, beam)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--compile", action="store_true", help="torch.compile model and loss")
    options.add_argument("--post-norm", action="store_true", help="post-norm, as in the paper")
    options.add_argument("--stock-dropout", action="store_true", help="keep the default dropout")
    arguments = options.parse_args()
    run(
        "torch.nn (compiled)" if arguments.compile else "torch.nn",
        lambda corpus: Translator(corpus, not arguments.post_norm, arguments.stock_dropout),
        arguments,
    )


if __name__ == "__main__":
    main()
