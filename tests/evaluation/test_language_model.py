"""Perplexity: every token but the first is counted once, whatever the batch size."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizers import bpe, character
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError, DataError
from regard.evaluation.language_model import Perplexity, Piece, perplexity, windows
from regard.models.base import ModelSpec
from regard.predictors.generator import TextGenerator

TEXT = "A dog runs over the grass.\nDeux hommes, un banc…\n\nThe girl has a red ball.\n" * 4
CONTEXT = 32


def random_language_model(tokenizer: Tokenizer, begin: tuple[int, ...] = ()) -> TextGenerator:
    torch.manual_seed(3)
    sizes = {
        "dim": 16,
        "heads": 2,
        "ffn_dim": 32,
        "layers": 1,
        "dropout": 0.0,
        "position": "learned",
    }
    spec = ModelSpec.model_validate({"kind": "language-model", **sizes, "max_length": CONTEXT})
    model = spec.build(len(tokenizer))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return TextGenerator(model, tokenizer, CONTEXT, begin)


@pytest.fixture(scope="module")
def letters() -> TextGenerator:
    return random_language_model(character.Spec().train([TEXT]))


@pytest.fixture(scope="module")
def subwords() -> TextGenerator:
    return random_language_model(bpe.Spec(vocabulary=400, spaces="keep").train([TEXT]))


def one_by_one(model: TextGenerator, ids: list[int], context: int, stride: int) -> float:
    """−Σ log p with one forward pass for each token: the window that counts it, up to it."""
    total = 0.0
    for position in range(1, len(ids)):
        begin = max(0, -(-(position - context) // stride)) * stride
        with torch.inference_mode():
            logits = model.model(torch.tensor([ids[begin:position]]))[0, -1]
        total -= float(logits.double().log_softmax(-1)[ids[position]])
    return total


@pytest.mark.parametrize(("context", "stride"), [(32, 32), (32, 8), (32, 1), (7, 3), (1, 1)])
def test_loss_equals_the_sum_over_single_tokens(
    subwords: TextGenerator, context: int, stride: int
) -> None:
    scores = subwords.perplexity(TEXT, context, stride)
    ids = subwords.tokenizer.encode(TEXT)
    assert scores.tokens == len(ids) - 1
    assert scores.nats == pytest.approx(one_by_one(subwords, ids, context, stride), rel=1e-5)
    assert (scores.context, scores.stride) == (context, stride)
    assert scores.perplexity == pytest.approx(math.exp(scores.nats / scores.tokens))


@given(
    st.lists(st.integers(0, 40), max_size=8),
    st.integers(1, 12),
    st.integers(1, 12),
)
@settings(deadline=None)
def test_windows_count_every_token_but_the_first_once(
    sizes: list[int], context: int, stride: int
) -> None:
    stride = min(stride, context)
    chunks = [[0] * size for size in sizes]
    number = 0
    for chunk in chunks:
        for position in range(len(chunk)):
            chunk[position], number = number, number + 1
    counted = []
    for ids, count in windows(chunks, context, stride):
        assert len(ids) <= context + 1
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        new = ids[len(ids) - count :]
        back = len(ids) - count  # the context of the first of them
        assert back >= min(new[0], context - stride)
        counted += new
    assert counted == list(range(1, number))


def test_first_token_of_a_new_sequence_is_not_counted() -> None:
    counted = list(windows([[1, 2, 3], None, [4], None, [5, 6]], 8, 8))
    assert counted == [([1, 2, 3], 2), ([5, 6], 1)]


@pytest.mark.parametrize("batch_tokens", [1, 100, 10_000])
def test_batch_size_does_not_change_scores(subwords: TextGenerator, batch_tokens: int) -> None:
    expected = subwords.perplexity(TEXT, stride=8)
    scores = perplexity(subwords, [Piece(TEXT)], stride=8, batch_tokens=batch_tokens)
    assert scores.nats == pytest.approx(expected.nats, rel=1e-6)
    assert (scores.tokens, scores.correct, scores.windows) == (
        expected.tokens,
        expected.correct,
        expected.windows,
    )


def test_pieces_of_a_text_score_like_the_text(subwords: TextGenerator) -> None:
    lines = TEXT.splitlines(keepends=True)
    pieces = [Piece(line, ends=False) for line in lines]
    assert perplexity(subwords, pieces).to_plain() == pytest.approx(
        subwords.perplexity(TEXT).to_plain()
    )


def test_tokens_words_characters_and_bytes_are_counted(
    letters: TextGenerator, subwords: TextGenerator
) -> None:
    """The first token is not predicted, so its characters are not counted."""
    scores = letters.perplexity("Un été\nà Paris…\n")
    # é, é and à take two bytes each.
    assert (scores.tokens, scores.characters, scores.bytes) == (18, 15, 20)
    assert (scores.words, scores.lines, scores.documents) == (4, 2, 1)
    bits = scores.nats / math.log(2)
    assert scores.bits_per_character == pytest.approx(bits / 15)
    assert scores.bits_per_byte == pytest.approx(bits / 20)
    assert scores.word_perplexity == pytest.approx(math.exp(scores.nats / 4))
    assert scores.word_or_line_perplexity == pytest.approx(math.exp(scores.nats / 6))
    first = subwords.tokenizer.spans(TEXT)[0][2]
    assert subwords.perplexity(TEXT).characters == len(TEXT) - first
    assert "tokens in 1 windows" in scores.counted


def test_bits_per_character_do_not_depend_on_the_tokenizer() -> None:
    """A uniform model: log2 V bits for each piece, whatever its length."""
    for kind in (character.Spec(), bpe.Spec(vocabulary=400, spaces="keep")):
        model = random_language_model(kind.train([TEXT]))
        with torch.no_grad():
            model.model.output.weight.zero_()
        scores = model.perplexity(TEXT)
        assert scores.perplexity == pytest.approx(len(model.tokenizer), rel=1e-4)
        bits = math.log2(len(model.tokenizer)) * scores.tokens / scores.characters
        assert scores.bits_per_character == pytest.approx(bits, rel=1e-5)


def test_end_token_between_documents_is_predicted(letters: TextGenerator) -> None:
    scores = perplexity(letters, [Piece("A dog"), Piece("runs"), Piece(" over")])
    end = letters.tokenizer.end
    parts = [letters.tokenizer.encode(text) for text in ("A dog", "runs", " over")]
    ids = [*parts[0], end, *parts[1], end, *parts[2]]
    assert scores.nats == pytest.approx(one_by_one(letters, ids, CONTEXT, CONTEXT), rel=1e-5)
    assert (scores.tokens, scores.documents, scores.lines, scores.words) == (15, 3, 2, 3)


def test_model_with_bos_scores_each_document_separately(
    letters: TextGenerator,
) -> None:
    end = letters.tokenizer.end
    with_bos = TextGenerator(letters.model, letters.tokenizer, CONTEXT, [end])
    scores = perplexity(with_bos, [Piece("A dog"), Piece("runs")])
    first, second = (letters.tokenizer.encode(text) for text in ("A dog", "runs"))
    total = one_by_one(with_bos, [end, *first, end], CONTEXT, CONTEXT)
    total += one_by_one(with_bos, [end, *second], CONTEXT, CONTEXT)
    assert scores.nats == pytest.approx(total, rel=1e-5)
    assert (scores.tokens, scores.windows, scores.characters, scores.words) == (10, 2, 9, 3)


def test_lossy_tokenization_is_reported(letters: TextGenerator) -> None:
    collapsing = random_language_model(bpe.Spec(vocabulary=400, spaces="collapse").train([TEXT]))
    assert not collapsing.perplexity(TEXT).lossless
    assert letters.perplexity("日本 \n\n x").lossless


@pytest.mark.parametrize("text", ["", "A"])
def test_text_without_predictable_tokens_is_refused(letters: TextGenerator, text: str) -> None:
    with pytest.raises(DataError, match="there is nothing to predict"):
        letters.perplexity(text)


def test_stride_that_skips_tokens_is_refused(letters: TextGenerator) -> None:
    with pytest.raises(ConfigError, match="stride: 33 tokens; give a stride from 1"):
        letters.perplexity(TEXT, stride=33)
    with pytest.raises(ConfigError, match="this model takes from 1 to 32"):
        letters.perplexity(TEXT, context=33)
    with pytest.raises(ConfigError, match="stride: 0 tokens"):
        letters.perplexity(TEXT, stride=0)


def test_infinite_values_are_none() -> None:
    scores = Perplexity(8, 8, 4000.0, 400, 1, 50, 1, 1600, 1600, 0, 0, True).to_plain()
    assert scores["word_perplexity"] is None
    assert scores["loss"] == 10
