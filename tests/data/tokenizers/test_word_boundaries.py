"""Word boundaries among tokens of any tokenizer."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries

TEXT = "The animal didn't cross the well-known street, because it was (far) too tired..."
WORDS = ["The", "animal", "didn't", "cross", "the", "well-known", "street", ",", "because", "it",
         "was", "(far", ")", "too", "tired", ".", ".", "."]  # fmt: skip


def grouped(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the text of each word by the boundaries."""
    ids = np.array(tokenizer.encode(text))
    starts = [*WordBoundaries(tokenizer)(ids).nonzero()[0].tolist(), len(ids)]
    words = [ids[begin:end].tolist() for begin, end in pairwise(starts)]
    return [tokenizer.decode(word).strip() for word in words]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character", "byte"])
@pytest.mark.parametrize("spaces", ["collapse", "keep"])
def test_word_boundaries_of_regard_tokenizers(kind: str, spaces: str) -> None:
    learned = {"vocabulary": 320, "spaces": spaces} if kind not in ("character", "byte") else {}
    spec = TokenizerSpec.model_validate({"kind": kind, **learned})
    tokenizer = spec.train([TEXT, "an animal crosses", "streets are known"] * 3)
    if kind == "byte":  # where all is bytes, a sign cannot be told from part of a character
        assert grouped(tokenizer, TEXT) == TEXT.split()
    else:
        assert grouped(tokenizer, TEXT) == WORDS
    assert grouped(tokenizer, "été à Noël") == ["été", "à", "Noël"]


def backend(model: Any, pre: Any, decoder: Any) -> Tokenizer:
    made = Backend(model)
    made.pre_tokenizer, made.decoder = pre, decoder
    made.add_special_tokens(["<pad>", "<unk>", "<s>", "</s>"])
    return Tokenizer(made)


def test_word_boundaries_of_other_tokenizers() -> None:
    pieces = ["[UNK]", "the", "anim", "##al", "cross", "##ed", "didn", "'", "t", ".", "##s"]
    bert = backend(
        models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"),
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    )
    assert grouped(bert, "the animal crossed.") == ["the", "animal", "crossed", "."]
    assert grouped(bert, "didn't") == ["didn", "'", "t"]  # as BERT has it
    vocabulary = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt", "Ġth", "Ġthe"]
    merges = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e")]
    gpt2 = backend(
        models.BPE({piece: n for n, piece in enumerate(vocabulary)}, merges),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    assert grouped(gpt2, "All the cats didn't.") == ["All", "the", "cats", "didn't", "."]
    scores = [("<unk>", 0.0), *((c, -3.0) for c in "▁thecasnid'."), ("▁the", -1.0)]
    t5 = backend(
        models.Unigram(scores, 0),
        pre_tokenizers.Metaspace(),
        decoders.Metaspace(),
    )
    assert grouped(t5, "the cats didn't.") == ["the", "cats", "didn't", "."]
