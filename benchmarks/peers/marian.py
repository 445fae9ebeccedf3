"""Train Hugging Face's MarianMTModel in a plain loop.

A MarianConfig of the benchmark's sizes with the settings of the published Marian models: post-norm,
sinusoidal positions, embeddings scaled by √D, dropout on embeddings and sublayers only, one
embedding for source, target and output. Two settings differ: ReLU, as in the paper and the other
peers, and weights initialized with D^-½, which is Glorot's rule for square matrices (Marian's own
initialization); the library's 0.02 suits its default size, D = 1024.
"""

from typing import Any

from common import DIM, DROPOUT, FFN_DIM, HEADS, LAYERS, Corpus, parser
from loop import Peer, limit, run, smoothed_cross_entropy
from torch import Tensor
from transformers import MarianConfig, MarianMTModel
from transformers.utils import logging


def config(corpus: Corpus) -> MarianConfig:
    return MarianConfig(
        vocab_size=corpus.vocabulary,
        d_model=DIM,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=FFN_DIM,
        decoder_ffn_dim=FFN_DIM,
        max_position_embeddings=512,
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=0.0,
        activation_dropout=0.0,
        init_std=DIM**-0.5,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=corpus.pad,
        bos_token_id=corpus.start,
        decoder_start_token_id=corpus.start,
        eos_token_id=corpus.end,
        forced_eos_token_id=corpus.end,
    )


class Marian(Peer):
    """The model with its loss; attention is torch's fused attention, the library's default."""

    def __init__(self, corpus: Corpus) -> None:
        super().__init__()
        self.corpus = corpus
        self.model: Any = MarianMTModel(config(corpus))  # the library is typed in part only

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        # No mask for the target: its padding is on the right, excluded by the causal mask.
        output = self.model(
            input_ids=source,
            attention_mask=source_mask,
            decoder_input_ids=target[:, :-1],
            use_cache=False,
        )
        return smoothed_cross_entropy(output.logits, target[:, 1:], self.corpus.pad)

    def translate(self, source: Tensor, source_mask: Tensor, beam: int) -> list[list[int]]:
        generated = self.model.generate(
            input_ids=source,
            attention_mask=source_mask.long(),
            num_beams=beam,
            do_sample=False,
            max_new_tokens=limit(source),
        )
        ids: list[list[int]] = generated[:, 1:].tolist()
        return ids


def main() -> None:
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    options = parser(__doc__)
    options.add_argument("--compile", action="store_true", help="torch.compile model and loss")
    arguments = options.parse_args()
    run("Marian (compiled)" if arguments.compile else "Marian", Marian, arguments)


if __name__ == "__main__":
    main()
