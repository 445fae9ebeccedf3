"""Pretrained vectors as the first weights of a model's embeddings."""

from collections.abc import Callable

from torch import nn

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.vectors import VectorsSpec, read_vectors
from regard.models import vectors
from regard.models.embedding import Embedding


def seed_vectors(
    model: nn.Module, spec: VectorsSpec, tokenizer: Tokenizer, say: Callable[[str], None]
) -> None:
    """Each embedding of the model, a shared one once."""
    words = [tokenizer.readable(piece) for piece in tokenizer.vocabulary()]
    wanted = {*words, *map(str.lower, words)}
    found = (each for each in model.modules() if isinstance(each, Embedding))
    for embedding in {each.tokens: each for each in found}.values():
        known = read_vectors(spec.path, wanted, embedding.tokens.embedding_dim)
        seeded = vectors.seed(embedding, words, known, spec.frozen)
        say(
            f"{spec.path.name} seeds {seeded.found:,} of {len(words):,} pieces; "
            f"{seeded.missing:,} are missing from it and start at random."
        )
