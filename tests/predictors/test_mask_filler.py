"""MaskFiller and SpanFiller: blanks are located in any text and filled as the model predicts."""

import math
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.data.batches.spans import sentinel
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.errors import DataError
from regard.predictors.mask_filler import MaskFiller, around_blanks
from regard.predictors.span_filler import SpanFiller

from .conftest import TEXT, random_model

SENTINELS = 4
TEXTS = [
    ("The ___ crossed the street.", "The animal crossed the street.", ["animal"]),
    ("The [MASK] crossed the <mask>.", "The animal crossed the street.", ["animal", "street"]),
    ("[mask] animal, ______!", "The animal, tired!", ["The", "tired"]),
    ("The ___ ___ street ‖ here", "The tired animal street ‖ here", ["tired", "animal"]),
    ("The ___", "The animal", ["animal"]),
]


def ours(**settings: Any) -> Tokenizer:
    """Train a tokenizer with one piece for each word."""
    lines = [whole for _, whole, _ in TEXTS] * 20 + TEXT
    special_tokens = ["mask", *map(sentinel, range(SENTINELS))]
    return TokenizerSpec.model_validate({"kind": "bpe", **settings}).train(lines, special_tokens)


def theirs(kind: str) -> Tokenizer:
    words = [*["The", "animal", "crossed", "the", "street", "tired", "here"], ".", ",", "!", "‖"]
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    if kind == "bert":
        pieces = [*special, "[UNK]", *words]
        vocabulary = {piece: n for n, piece in enumerate(pieces)}
        made = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=False)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
    elif kind == "t5":
        scores = [(each, 0.0) for each in special]
        scores += [(f"▁{word}", -1.0) for word in words] + [(c, -5.0) for c in "▁.,!"]
        made = Backend(models.Unigram(scores, 1))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
    else:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {piece: n for n, piece in enumerate([*special, *alphabet])}
        merges = []
        for word in words[:7]:
            whole = "Ġ"
            for sign in word:
                merges.append((whole, sign))
                whole += sign
                vocabulary.setdefault(whole, len(vocabulary))
        made = Backend(models.BPE(vocabulary, list(dict.fromkeys(merges))))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        made.decoder = decoders.ByteLevel()
    made.add_special_tokens(special)
    return Tokenizer(made)


TOKENIZERS = {
    "bpe": lambda: ours(vocabulary=600),
    "unigram": lambda: ours(kind="unigram", vocabulary=600),
    "words": lambda: ours(kind="word", vocabulary=600),
    "spaces kept": lambda: ours(vocabulary=600, spaces="keep"),
    "as BERT": lambda: theirs("bert"),
    "as T5": lambda: theirs("t5"),
    "as RoBERTa": lambda: theirs("roberta"),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_filled_blanks_give_the_tokens_of_the_whole_text(kind: str) -> None:
    """The tokens around a blank are those of the whole text."""
    tokenizer = TOKENIZERS[kind]()
    boundaries = WordBoundaries(tokenizer)
    for text, whole, words in TEXTS:
        parts = around_blanks(text, 1, tokenizer, boundaries)
        assert len(parts) == len(words) + 1
        ids, expected = list(parts[0]), tokenizer.encode(whole)
        for word, part in zip(words, parts[1:], strict=True):
            (piece,) = (
                each
                for each in dict.fromkeys(expected)
                if tokenizer.pieces([each]) == [word] and expected[len(ids)] == each
            )
            ids += [piece, *part]
        assert ids == expected


@pytest.mark.parametrize("kind", ["character", "byte"])
def test_blank_is_one_character_for_character_tokenizers(kind: str) -> None:
    tokenizer = TokenizerSpec.model_validate({"kind": kind}).train(["the cat"], ["mask"])
    first, second = around_blanks("the c___t", 1, tokenizer, WordBoundaries(tokenizer))
    assert (tokenizer.decode(first), tokenizer.decode(second)) == ("the c", "t")
    first, second = around_blanks("the ___at", 1, tokenizer, WordBoundaries(tokenizer))
    assert (tokenizer.decode(first), tokenizer.decode(second)) == ("the ", "at")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return ours(vocabulary=500)


@pytest.fixture(scope="module")
def filler(tokenizer: Tokenizer) -> MaskFiller:
    return MaskFiller(random_model("masked-lm", len(tokenizer), max_length=24), tokenizer, 24)


@pytest.fixture(scope="module")
def spans(tokenizer: Tokenizer) -> SpanFiller:
    model = random_model("encoder-decoder", len(tokenizer), max_length=24)
    return SpanFiller(model, tokenizer, 24, SENTINELS)


def test_fill_returns_the_probabilities_of_the_model(
    filler: MaskFiller, tokenizer: Tokenizer
) -> None:
    actual = filler.fill("The ___ crossed the ___.", top=7)
    ids = filler.encode("The ___ crossed the ___.")
    with torch.inference_mode():
        likely = filler.model(torch.tensor([ids]))[0].softmax(-1)
    places = [place for place, each in enumerate(ids) if each == filler.mask]
    for place, blank in zip(places, actual, strict=True):
        words = [each for each in range(len(tokenizer)) if each not in tokenizer.special_ids]
        best = sorted(words, key=lambda each: -likely[place, each])[:7]
        assert [each.text.removeprefix("…") for each in blank] == tokenizer.pieces(best)
        expected = likely[place, best].tolist()
        assert [each.probability for each in blank] == pytest.approx(expected, abs=1e-5)
    every = filler.fill("The ___", top=10**6)[0]
    assert len(every) == len(words)
    assert 0 < sum(each.probability for each in every) <= 1


def test_score_masks_each_token_in_turn(filler: MaskFiller) -> None:
    (score,) = filler.score(["The animal crossed"])
    ids = [filler.tokenizer.start, *filler.tokenizer.encode("The animal crossed"),
           filler.tokenizer.end]  # fmt: skip
    for place, actual in enumerate(score.token_log_probs, start=1):
        given = list(ids)
        given[place] = filler.mask
        with torch.inference_mode():
            log_p = filler.model(torch.tensor([given]))[0, place].log_softmax(-1)[ids[place]]
        assert actual == pytest.approx(float(log_p), abs=1e-5)
    assert len(score.token_log_probs) == len(ids) - 2


def test_spans_are_ranked_by_probability(spans: SpanFiller, tokenizer: Tokenizer) -> None:
    text = "The ___ crossed the ___."
    source = spans.encode(text)
    sentinels = spans.sentinels
    assert [each for each in source if each in sentinels] == sentinels[:2]
    actual = spans.spans(source, 3)
    generated = [tokenizer.start]
    for number, (fillings, best) in enumerate(actual):
        generated.append(sentinels[number])
        ids = torch.tensor([source])
        token_mask = torch.ones_like(ids, dtype=torch.bool)
        whole = torch.tensor([[*generated, *best]])
        with torch.inference_mode():
            log_p = spans.model(ids, token_mask, whole)[0].log_softmax(-1)
        expected = [*best, sentinels[number + 1]]
        first = len(generated) - 1
        total = sum(float(log_p[first + n, each]) for n, each in enumerate(expected))
        own = tokenizer.decode(best).strip()
        given = next(each for each in fillings if each.text == own)
        assert given.probability >= math.exp(total) * (1 - 1e-4)
        assert [each.probability for each in fillings] == sorted(
            (each.probability for each in fillings), reverse=True
        )
        generated += best
        assert best
    assert [fillings for fillings, _ in actual] == spans.fill(text, top=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("The animal crossed", r"text 3 has no blank: write \[MASK\], <mask> or ___ where"),
        ("", "text 3 has no blank"),
        (
            "The ___ " + "crossed the street " * 9,
            "text 3 has [0-9]+ tokens and this model takes 24",
        ),
    ],
)
def test_text_without_blank_or_too_long_is_refused(
    filler: MaskFiller, spans: SpanFiller, text: str, message: str
) -> None:
    for each in (filler, spans):
        with pytest.raises(DataError, match=message):
            each.fill(text, number=3)


def test_more_blanks_than_sentinels_are_refused(spans: SpanFiller) -> None:
    with pytest.raises(DataError, match="text 1 has 4 blanks and this model takes 3"):
        spans.fill("___ The ___ the ___ a ___")
