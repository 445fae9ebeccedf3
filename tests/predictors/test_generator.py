"""TextGenerator: batched, streamed and speculative decoding give the same text."""

import math

import pytest
import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.logits_processors import RepetitionPenalty
from regard.decoding.sampling import Sampling
from regard.decoding.sliding_window import retained_tokens
from regard.errors import ConfigError, DataError
from regard.predictors.generator import TextGenerator
from regard.predictors.scored_tokens import ScoredToken

from .conftest import TEXT, random_model

PROMPTS = ["", "A", "A dog runs", *TEXT, "The girl has a red"]
DECODING = {
    "greedy": DecodingConfig(),
    "sampled": DecodingConfig(sampling=Sampling(temperature=0.8, top_k=20, seed=4)),
    "beam": DecodingConfig(beam=3),
    "no repeated n-grams": DecodingConfig(no_repeat_ngram=2, repetition_penalty=1.3),
}


@pytest.mark.parametrize("decoding", DECODING.values(), ids=DECODING.keys())
def test_continuation_does_not_depend_on_the_batch(generator, decoding: DecodingConfig) -> None:
    together = generator.candidates(PROMPTS, 20, decoding)
    for number, prompt in enumerate(PROMPTS):
        if decoding.sampling is None:  # random draws depend on the prompt's number
            assert generator.candidates([prompt], 20, decoding)[0] == together[number]
    again = generator.candidates(PROMPTS[:4], 20, decoding)
    assert again == together[:4]


def test_engine_generates_the_same_text_as_torch(generator) -> None:
    fast = generator.candidates(PROMPTS, 20)
    generator.model.register_forward_hook(lambda *_: None)  # hooks select torch
    assert generator.candidates(PROMPTS, 20) == fast


def test_streamed_text_equals_generated_text(generator) -> None:
    assert "".join(generator.stream("A dog", 20)) == generator.generate("A dog", 20)
    sampling = Sampling(seed=3)
    sampled = "".join(generator.stream("A dog", 20, sampling))
    assert sampled == generator.generate("A dog", 20, DecodingConfig(sampling=sampling))


def test_speculative_decoding_gives_the_greedy_text(generator, tokenizer) -> None:
    small = random_model("language-model", len(tokenizer), seed=2, max_length=120)
    draft = TextGenerator(small, tokenizer, 120)
    for prompt in PROMPTS:
        expected = generator.generate(prompt, 30)
        assert "".join(generator.speculate(prompt, 30)) == expected
        assert "".join(generator.speculate(prompt, 30, draft)) == expected


def test_score_equals_log_probs_of_the_model(generator) -> None:
    (score,) = generator.score([TEXT[0]])
    ids = [*generator.tokenizer.encode(TEXT[0]), generator.tokenizer.end]
    with torch.inference_mode():
        log_p = generator.model(torch.tensor([ids[:-1]])).log_softmax(-1)[0]
    expected = log_p.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    assert score.token_log_probs == pytest.approx(expected.tolist(), abs=1e-4)
    assert score.perplexity == pytest.approx(float((-expected.mean()).exp()), rel=1e-3)


def test_text_beyond_the_context_is_refused(generator) -> None:
    with pytest.raises(DataError, match="120 in all"):
        generator.generate("A dog", 500)
    with pytest.raises(DataError, match="600 tokens and this model takes at most 120"):
        generator.score(["a dog runs " * 200])


LONG = " ".join(TEXT * 4)  # many more tokens than a context


def short_context(tokenizer, bos=(), context: int = 24, **settings: object) -> TextGenerator:
    settings = {"max_length": context, **settings}
    model = random_model("language-model", len(tokenizer), seed=4, **settings)
    return TextGenerator(model, tokenizer, context, bos)


def slide(generator: TextGenerator, ids: list[int], tokens: int) -> list[int]:
    """Generate with a sliding window and without a cache."""
    generated: list[int] = []
    context = list(ids)
    with torch.inference_mode():
        for _ in range(tokens):
            if len(context) > generator.max_length:
                last = (
                    retained_tokens(generator.max_length, len(generator.bos))
                    + 1
                    - len(generator.bos)
                )
                context = [*generator.bos, *context[len(context) - last :]]
            logits: Tensor = generator.model(torch.tensor([context]))[0, -1]
            generated.append(int(logits.argmax()))
            if generated[-1] == generator.tokenizer.end:
                return generated[:-1]
            context.append(generated[-1])
    return generated


@pytest.mark.parametrize("position", ["learned", "rotary"])
@pytest.mark.parametrize("with_bos", [False, True])
def test_sliding_window_continues_past_the_context(
    tokenizer, position: str, with_bos: bool
) -> None:
    bos = [tokenizer.start] if with_bos else []
    generator = short_context(tokenizer, bos, position=position)
    for prompt in ("A dog", LONG):
        ids = generator.encode(prompt, sliding_window=True)
        assert len(ids) <= 24
        assert ids[: len(bos)] == bos
        expected = tokenizer.decode_after(tokenizer.encode(prompt))(slide(generator, ids, 60))
        assert generator.generate(prompt, 60, sliding_window=True) == expected
        assert "".join(generator.stream(prompt, 60, sliding_window=True)) == expected


def test_sliding_window_uses_the_last_tokens_of_a_prompt_and_reports_it(tokenizer) -> None:
    generator = short_context(tokenizer, [tokenizer.start])
    ids = generator.encode(LONG, sliding_window=True)
    whole = tokenizer.encode(LONG)
    assert ids == [tokenizer.start, *whole[-23:]]
    notice = generator.dropped_context(LONG, 1)
    assert f"the last 24 of the prompt's {len(whole) + 1:,} tokens are used" in notice
    assert "slides, and each new token is predicted from at least the last 18" in notice
    assert generator.dropped_context("A dog", 3) == ""
    with pytest.raises(DataError, match=r"--sliding-window; in Python, sliding_window=True"):
        generator.generate(LONG, 5)
    with pytest.raises(DataError, match=r"or drop the beginning"):
        generator.generate("A dog", 50)


def test_sliding_window_changes_nothing_within_the_context(generator) -> None:
    for prompt in PROMPTS:
        assert generator.generate(prompt, 20, sliding_window=True) == generator.generate(prompt, 20)


@pytest.mark.parametrize("decoding", DECODING.values(), ids=DECODING.keys())
def test_every_decoding_continues_past_the_context(tokenizer, decoding: DecodingConfig) -> None:
    generator = short_context(tokenizer)
    together = generator.candidates(["A dog", LONG, "A"], 40, decoding, sliding_window=True)
    again = generator.candidates(["A dog", LONG, "A"], 40, decoding, sliding_window=True)
    assert together == again
    assert all(texts[0] for texts in together)


def test_speculative_decoding_refuses_to_slide(tokenizer) -> None:
    generator = short_context(tokenizer)
    with pytest.raises(
        ConfigError, match="speculative decoding cannot pass the context of 24 tokens"
    ):
        next(generator.speculate("A dog", 50, sliding_window=True))


@pytest.mark.parametrize("bos", ["", "start", "end"])
def test_empty_prompt_starts_a_text(tokenizer, bos: str) -> None:
    """Without BOS tokens a text starts after the end token."""
    expected = [getattr(tokenizer, bos)] if bos else []
    generator = short_context(tokenizer, expected, context=60)
    first = expected or [tokenizer.end]
    assert generator.encode("") == first
    expected = tokenizer.decode(slide(generator, first, 12))
    assert generator.generate("", 12) == expected
    assert "".join(generator.stream("", 12)) == expected
    assert "".join(generator.speculate("", 12)) == expected


def test_perplexity_equals_mean_log_prob_of_the_tokens(generator) -> None:
    actual = generator.perplexity(TEXT[0])
    ids = generator.tokenizer.encode(TEXT[0])
    with torch.inference_mode():
        log_p = generator.model(torch.tensor([ids[:-1]])).log_softmax(-1)[0]
    expected = -log_p.gather(1, torch.tensor(ids[1:])[:, None]).mean()
    assert actual.tokens == len(ids) - 1
    assert actual.loss == pytest.approx(float(expected), abs=1e-5)


def rows_of(
    generator: TextGenerator, prompt: str, rows: int, **settings
) -> list[list[ScoredToken]]:
    """Return the tokens of each row."""
    tokens: list[list[ScoredToken]] = [[] for _ in range(rows)]
    for step in generator.stream_rows(generator.encode(prompt), 20, rows=rows, **settings):
        for row, token in step:
            tokens[row].append(token)
    return tokens


@pytest.mark.parametrize("with_engine", [True, False])
@pytest.mark.parametrize("prompt", ["", "A dog runs"])
def test_rows_are_sampled_as_alone(generator, prompt: str, with_engine: bool) -> None:
    if not with_engine:
        generator.model.register_forward_hook(lambda *_: None)
    sampling = Sampling(seed=3)
    (alone,) = rows_of(generator, prompt, 1, sampling=sampling, top=2)
    first, second, third = rows_of(generator, prompt, 3, sampling=sampling, top=2)
    if with_engine:
        assert first == alone
    assert [token.id for token in first] == [token.id for token in alone]
    assert len({tuple(token.id for token in row) for row in (first, second, third)}) == 3
    text = generator.tokenizer.decode_after(generator.encode(prompt))([own.id for own in alone])
    assert text == generator.generate(prompt, 20, DecodingConfig(sampling=sampling))


def test_tokens_of_rows_have_the_log_probs_of_the_text(generator) -> None:
    prompt = generator.encode("A dog runs")
    processors = [RepetitionPenalty(1.5)]
    for row in rows_of(
        generator, "A dog runs", 2, sampling=Sampling(0.5, top_k=5), top=3, processors=processors
    ):
        scored = generator.score_tokens([*prompt, *(token.id for token in row)], top=3)
        assert scored[len(prompt) - 1 :] == row


def test_scored_tokens_equal_the_scores_of_the_text(tokenizer) -> None:
    generator = short_context(tokenizer, context=300)
    generator.other_ends = [tokenizer.start, 7]
    text = " ".join(TEXT * 2)
    tokens = generator.score_tokens(generator.encode(text), top=2)
    (score,) = generator.score([text])
    expected = score.token_log_probs[:-1]
    assert len(tokens) > 128  # in several parts
    assert [token.log_prob for token in tokens] == pytest.approx(expected, abs=1e-6)
    for token in tokens:
        (best, first), (_, second) = token.top
        assert first >= second
        assert first >= token.log_prob
        assert best == token.id or token.log_prob <= first
    assert generator.score_tokens([5]) == []


def test_a_stopped_row_ends_before_the_next_step(generator) -> None:
    stopped: set[int] = set()
    counts = [0, 0, 0]
    sampling = Sampling(seed=5)
    for step in generator.stream_rows(generator.encode("A"), 9, sampling, 3, stopped=stopped):
        for row, token in step:
            counts[row] += 1
            assert math.isnan(token.log_prob)
        stopped.add(1)
    assert counts == [9, 1, 9]


def test_search_returns_ids_of_the_texts_of_candidates(generator) -> None:
    decoding = DecodingConfig(beam=3, n_best=2)
    prompts = [generator.encode(prompt) for prompt in PROMPTS]
    for prompt, hypotheses in zip(PROMPTS, generator.search(prompts, 10, decoding), strict=True):
        decode = generator.tokenizer.decode_after(generator.encode(prompt))
        texts = generator.candidates([prompt], 10, decoding)[0]
        assert [decode(hypothesis.ids) for hypothesis in hypotheses] == texts
