"""The writer: prompts of any length together, the same words alone, streamed or guessed at."""

import pytest
import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling
from regard.decoding.sliding_window import retained_tokens
from regard.errors import ConfigError, DataError
from regard.predictors.generator import TextGenerator

from .conftest import TEXT, random_model

PROMPTS = ["", "A", "A dog runs", *TEXT, "The girl has a red"]
WAYS = {
    "greedy": DecodingConfig(),
    "sampled": DecodingConfig(sampling=Sampling(temperature=0.8, top_k=20, seed=4)),
    "beam": DecodingConfig(beam=3),
    "without repeating": DecodingConfig(no_repeat_ngram=2, repetition_penalty=1.3),
}


@pytest.mark.parametrize("search", WAYS.values(), ids=WAYS.keys())
def test_prompts_are_continued_alike_in_any_company(writer, search: DecodingConfig) -> None:
    together = writer.candidates(PROMPTS, 20, search)
    for number, prompt in enumerate(PROMPTS):
        if search.sampling is None:  # chance knows a prompt by its number
            assert writer.candidates([prompt], 20, search)[0] == together[number]
    again = writer.candidates(PROMPTS[:4], 20, search)
    assert again == together[:4]


def test_the_engine_says_what_the_model_says(writer) -> None:
    fast = writer.candidates(PROMPTS, 20)
    writer.model.register_forward_hook(lambda *_: None)  # whoever watches sees the model itself
    assert writer.candidates(PROMPTS, 20) == fast


def test_a_stream_is_the_text_bit_by_bit(writer) -> None:
    assert "".join(writer.stream("A dog", 20)) == writer.generate("A dog", 20)
    sampling = Sampling(seed=3)
    drawn = "".join(writer.stream("A dog", 20, sampling))
    assert drawn == writer.generate("A dog", 20, DecodingConfig(sampling=sampling))


def test_guessing_says_the_same(writer, tokenizer) -> None:
    small = random_model("language-model", len(tokenizer), seed=2, max_length=120)
    draft = TextGenerator(small, tokenizer, 120)
    for prompt in PROMPTS:
        wanted = writer.generate(prompt, 30)
        assert "".join(writer.speculate(prompt, 30)) == wanted
        assert "".join(writer.speculate(prompt, 30, draft)) == wanted


def test_a_text_is_scored_as_the_model_sees_it(writer) -> None:
    (score,) = writer.score([TEXT[0]])
    ids = [*writer.tokenizer.encode(TEXT[0]), writer.tokenizer.end]
    with torch.inference_mode():
        log_p = writer.model(torch.tensor([ids[:-1]])).log_softmax(-1)[0]
    wanted = log_p.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    assert score.token_log_probs == pytest.approx(wanted.tolist(), abs=1e-4)
    assert score.perplexity == pytest.approx(float((-wanted.mean()).exp()), rel=1e-3)


def test_what_does_not_fit_is_refused(writer) -> None:
    with pytest.raises(DataError, match="120 in all"):
        writer.generate("A dog", 500)
    with pytest.raises(DataError, match="600 tokens and this model takes at most 120"):
        writer.score(["a dog runs " * 200])


LONG = " ".join(TEXT * 4)  # tokens: far more than a context


def short_writer(tokenizer, begin=(), context: int = 24, **settings: object) -> TextGenerator:
    settings = {"max_length": context, **settings}
    model = random_model("language-model", len(tokenizer), seed=4, **settings)
    return TextGenerator(model, tokenizer, context, begin)


def slid(writer: TextGenerator, ids: list[int], tokens: int) -> list[int]:
    """What a window does, written out: no cache, everything worked out for each token."""
    said: list[int] = []
    given = list(ids)
    with torch.inference_mode():
        for _ in range(tokens):
            if len(given) > writer.max_length:
                last = retained_tokens(writer.max_length, len(writer.bos)) + 1 - len(writer.bos)
                given = [*writer.bos, *given[len(given) - last :]]
            logits: Tensor = writer.model(torch.tensor([given]))[0, -1]
            said.append(int(logits.argmax()))
            if said[-1] == writer.tokenizer.end:
                return said[:-1]
            given.append(said[-1])
    return said


@pytest.mark.parametrize("position", ["learned", "rotary"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_window_goes_on_past_the_context(tokenizer, position: str, begun: bool) -> None:
    begin = [tokenizer.start] if begun else []
    writer = short_writer(tokenizer, begin, position=position)
    for prompt in ("A dog", LONG):
        ids = writer.encode(prompt, sliding_window=True)
        assert len(ids) <= 24
        assert ids[: len(begin)] == begin
        wanted = tokenizer.decode_after(tokenizer.encode(prompt))(slid(writer, ids, 60))
        assert writer.generate(prompt, 60, sliding_window=True) == wanted
        assert "".join(writer.stream(prompt, 60, sliding_window=True)) == wanted


def test_of_a_prompt_too_long_the_last_is_kept_and_that_is_said(tokenizer) -> None:
    writer = short_writer(tokenizer, [tokenizer.start])
    ids = writer.encode(LONG, sliding_window=True)
    whole = tokenizer.encode(LONG)
    assert ids == [tokenizer.start, *whole[-23:]]
    said = writer.dropped_context(LONG, 1)
    assert f"the last 24 of the prompt's {len(whole) + 1:,} tokens are used" in said
    assert "slides, and each new token is predicted from at least the last 18" in said
    assert writer.dropped_context("A dog", 3) == ""
    with pytest.raises(DataError, match=r"--sliding-window; in Python, sliding_window=True"):
        writer.generate(LONG, 5)
    with pytest.raises(DataError, match=r"or drop the beginning"):
        writer.generate("A dog", 50)


def test_a_window_changes_nothing_where_all_fits(writer) -> None:
    for prompt in PROMPTS:
        assert writer.generate(prompt, 20, sliding_window=True) == writer.generate(prompt, 20)


@pytest.mark.parametrize("search", WAYS.values(), ids=WAYS.keys())
def test_every_search_goes_on_past_the_context(tokenizer, search: DecodingConfig) -> None:
    writer = short_writer(tokenizer)
    together = writer.candidates(["A dog", LONG, "A"], 40, search, sliding_window=True)
    again = writer.candidates(["A dog", LONG, "A"], 40, search, sliding_window=True)
    assert together == again
    assert all(each[0] for each in together)


def test_guesses_do_not_slide(tokenizer) -> None:
    writer = short_writer(tokenizer)
    with pytest.raises(
        ConfigError, match="speculative decoding cannot pass the context of 24 tokens"
    ):
        next(writer.speculate("A dog", 50, sliding_window=True))


@pytest.mark.parametrize("begin", ["", "start", "end"])
def test_an_empty_prompt_begins_a_text(tokenizer, begin: str) -> None:
    """Fresh models begin where another text has ended; others with what they expect."""
    expected = [getattr(tokenizer, begin)] if begin else []
    writer = short_writer(tokenizer, expected, context=60)
    first = expected or [tokenizer.end]
    assert writer.encode("") == first
    wanted = tokenizer.decode(slid(writer, first, 12))
    assert writer.generate("", 12) == wanted
    assert "".join(writer.stream("", 12)) == wanted
    assert "".join(writer.speculate("", 12)) == wanted


def test_the_perplexity_of_a_text_is_that_of_its_tokens(writer) -> None:
    found = writer.perplexity(TEXT[0])
    ids = writer.tokenizer.encode(TEXT[0])
    with torch.inference_mode():
        log_p = writer.model(torch.tensor([ids[:-1]])).log_softmax(-1)[0]
    wanted = -log_p.gather(1, torch.tensor(ids[1:])[:, None]).mean()
    assert found.tokens == len(ids) - 1
    assert found.loss == pytest.approx(float(wanted), abs=1e-5)
