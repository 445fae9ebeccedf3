"""The task generate: texts of every decoding, their tokens, their ends, and refusals."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling
from regard.errors import DataError
from regard.predictors.generator import TextGenerator
from regard.serving.count_penalty import CountPenalty
from regard.serving.errors import BadRequest
from regard.serving.tasks import generate
from regard.serving.tasks.base import Canceled, TaskContext

from .conftest import EN, FR

PROMPT = "The animal didn't"
PROMPTS = [PROMPT, "", EN, "L'animal n'a pas"]


@pytest.fixture
def generator(runs: Mapping[str, Path]) -> TextGenerator:
    return regard.load_language_model(runs["lm"])


def run(generator: TextGenerator, *prompts: str | list[int], **settings: Any) -> generate.Result:
    arguments = generate.Arguments(prompts=list(prompts or [PROMPT]), **settings)
    return generate.run(generator, arguments, TaskContext())


def streamed(
    generator: TextGenerator, *prompts: str | list[int], **settings: Any
) -> tuple[generate.Result, list[dict[str, Any]]]:
    """Return the result and the events."""
    events: list[dict[str, Any]] = []
    arguments = generate.Arguments(prompts=list(prompts or [PROMPT]), stream=True, **settings)
    return generate.run(generator, arguments, TaskContext(events.append)), events


def texts(result: generate.Result) -> list[str]:
    return [choice.text for choice in result.choices]


def joined(events: list[dict[str, Any]], choice: int) -> str:
    return "".join(event["text"] for event in events if event["choice"] == choice)


@pytest.mark.parametrize(
    ("settings", "decoding"),
    [
        ({}, DecodingConfig()),
        ({"temperature": 0}, DecodingConfig()),
        ({"temperature": 1.0, "top_p": 0}, DecodingConfig()),
        ({"repetition_penalty": 1.5}, DecodingConfig(repetition_penalty=1.5)),
        ({"beam": 3}, DecodingConfig(beam=3)),
        (
            {"temperature": 0.8, "top_k": 30, "top_p": 0.9, "seed": 7},
            DecodingConfig(sampling=Sampling(0.8, 30, 0.9, seed=7)),
        ),
        (
            {"temperature": 1.0, "seed": -1},
            DecodingConfig(sampling=Sampling(seed=2**64 - 1)),
        ),
    ],
)
def test_texts_are_those_of_regard_generate(
    generator, settings: dict[str, Any], decoding: DecodingConfig
) -> None:
    expected = [generator.generate(prompt, 12, decoding) for prompt in PROMPTS]
    assert texts(run(generator, *PROMPTS, max_tokens=12, **settings)) == expected
    ids = [generator.encode(prompt) for prompt in PROMPTS]
    assert texts(run(generator, *ids, max_tokens=12, **settings)) == expected
    result, events = streamed(generator, *PROMPTS, max_tokens=12, **settings)
    assert texts(result) == expected
    assert [joined(events, choice) for choice in range(len(PROMPTS))] == expected
    with_tokens = run(generator, *PROMPTS, max_tokens=12, logprobs=0, **settings)
    assert texts(with_tokens) == expected


def test_choices_of_one_seed_differ_and_depend_on_nothing_else(generator) -> None:
    settings = {"max_tokens": 10, "temperature": 1.0, "seed": 5}
    four = texts(run(generator, PROMPT, n=4, **settings))
    assert len(set(four)) == 4
    assert texts(run(generator, PROMPT, **settings)) == four[:1]
    assert texts(run(generator, FR, PROMPT, n=4, **settings))[4:] == four
    assert texts(run(generator, PROMPT, max_tokens=10, temperature=1.0)) != texts(
        run(generator, PROMPT, max_tokens=10, temperature=1.0)
    )


def test_greedy_choices_are_equal(generator) -> None:
    assert len(set(texts(run(generator, n=3)))) == 1
    assert len(set(texts(run(generator, n=3, stop=["\n\n\n"])))) == 1


def test_stop_strings_end_a_text_and_never_leak(generator) -> None:
    whole = run(generator, max_tokens=40, logprobs=0).choices[0]
    for start in range(0, len(whole.text) - 5, 3):
        stop = whole.text[start : start + 3]
        expected = whole.text[: whole.text.find(stop)]
        result, events = streamed(generator, max_tokens=40, stop=[stop, "never"], logprobs=1)
        (choice,) = result.choices
        assert choice.text == joined(events, 0) == expected
        assert choice.finish_reason == events[-1]["finish_reason"] == "stop"
        assert len(choice.ids) < 40
        assert choice.tokens is not None
        assert [token for event in events for token in event["tokens"]] == [
            token.model_dump() for token in choice.tokens
        ]
        end = len(PROMPT) + len(expected)
        assert all(token.offset < end for token in choice.tokens)
    (never,) = run(generator, max_tokens=40, stop=["never"]).choices
    assert (never.text, never.finish_reason) == (whole.text, "length")


def test_a_row_that_stops_does_not_end_the_others(generator) -> None:
    settings = {"max_tokens": 30, "temperature": 1.0, "seed": 2, "n": 3}
    first, *others = texts(run(generator, **settings))
    stop = first[5:8]
    stopped = texts(run(generator, stop=[stop], **settings))
    assert stopped == [text.partition(stop)[0] for text in (first, *others)]


def test_characters_are_sent_whole(generator) -> None:
    """Random tokens are often parts of characters."""
    settings = {"max_tokens": 60, "temperature": 3.0, "n": 4}
    for seed in range(5):
        whole = texts(run(generator, seed=seed, **settings))
        result, events = streamed(generator, seed=seed, logprobs=2, **settings)
        assert texts(result) == whole == [joined(events, choice) for choice in range(4)]
    assert any("\ufffd" in text for text in whole)  # some are never completed


def test_finish_reason_is_stop_at_the_end_token_and_length_at_the_limit(generator) -> None:
    varied = {"repetition_penalty": 1.8}
    (whole,) = run(generator, max_tokens=8, **varied).choices
    assert (whole.finish_reason, len(whole.ids)) == ("length", 8)
    position = next(i for i in range(2, 8) if whole.ids[i] not in whole.ids[:i])
    generator.tokenizer.end = whole.ids[position]
    for settings in ({}, {"stream": True}, {"logprobs": 0}, {"stop": ["never"]}):
        result = run(generator, max_tokens=8, **varied, **settings)
        (choice,) = result.choices
        assert (choice.finish_reason, choice.ids) == ("stop", whole.ids[:position])
        assert result.completion_tokens == position
        (cut,) = run(generator, max_tokens=position, **varied, **settings).choices
        assert (cut.finish_reason, cut.ids) == ("length", whole.ids[:position])


def test_log_probs_are_those_of_the_scores(generator) -> None:
    (echo,) = run(generator, EN, max_tokens=0, echo=True, logprobs=3).choices
    (score,) = generator.score([EN])
    assert echo.text == EN
    assert echo.finish_reason == "length"
    assert echo.tokens is not None
    first, *others = echo.tokens
    assert (first.log_prob, first.top, first.offset) == (None, [], 0)
    assert [token.log_prob for token in others] == list(score.token_log_probs[:-1])
    for token in others:
        assert len(token.top) == 3
        assert token.top[0][1] >= token.top[1][1] >= token.top[2][1]


@pytest.mark.parametrize("settings", [{}, {"temperature": 2.0, "seed": 1}, {"beam": 3}])
def test_tokens_have_their_places_and_scores(generator, settings: dict[str, Any]) -> None:
    (plain,) = run(generator, max_tokens=20, logprobs=2, **settings).choices
    (echo,) = run(generator, max_tokens=20, logprobs=2, echo=True, **settings).choices
    ids = generator.encode(PROMPT)
    assert plain.tokens is not None
    assert echo.tokens is not None
    assert len(echo.tokens) == len(ids) + 20
    assert echo.tokens[len(ids) :] == plain.tokens
    assert echo.text == PROMPT + plain.text
    scored = generator.score_tokens([*ids, *plain.ids])
    expected = [token.log_prob for token in scored]
    assert [token.log_prob for token in echo.tokens[1:]] == expected
    for token in echo.tokens:
        if "\ufffd" not in token.text:
            assert echo.text[token.offset :].startswith(token.text)
    offsets = [token.offset for token in echo.tokens]
    assert offsets == sorted(offsets)


def test_tokens_of_a_prompt_have_their_places_in_it(generator) -> None:
    prompt = "The  animal\ndidn't 🦊  cross"  # the tokenizer knows neither two spaces nor a newline
    (choice,) = run(generator, prompt, max_tokens=4, echo=True, logprobs=0).choices
    assert choice.text.startswith(prompt)
    assert choice.tokens is not None
    for token in choice.tokens[1:]:
        if "\ufffd" not in token.text:
            assert choice.text[token.offset :].split()[0].startswith(token.text.strip())
    assert choice.tokens[-4].offset == len(prompt)


def test_echo_is_streamed_first(generator) -> None:
    result, events = streamed(generator, EN, max_tokens=5, echo=True, logprobs=1, n=2)
    for index, choice in enumerate(result.choices):
        own = [event for event in events if event["choice"] == index]
        assert own[0]["text"] == EN
        assert joined(own, index) == choice.text
        assert choice.tokens is not None
        tokens = [token for event in own for token in event["tokens"]]
        assert tokens == [token.model_dump() for token in choice.tokens]


def test_best_of_returns_the_most_likely(generator) -> None:
    settings = {"max_tokens": 10, "temperature": 1.0, "seed": 9}
    all_five = run(generator, n=5, logprobs=0, **settings)

    def mean(choice: generate.Choice) -> float:
        assert choice.tokens is not None
        return float(np.mean([token.log_prob for token in choice.tokens]))

    best = sorted(all_five.choices, key=mean, reverse=True)
    result = run(generator, n=2, best_of=5, **settings)
    assert texts(result) == [choice.text for choice in best[:2]]
    assert [choice.index for choice in result.choices] == [0, 1]
    assert result.completion_tokens == sum(len(choice.ids) for choice in all_five.choices)


def test_beam_search_returns_several(generator) -> None:
    expected = generator.candidates([PROMPT], 8, DecodingConfig(beam=4, n_best=3))[0]
    assert texts(run(generator, max_tokens=8, beam=4, n=3)) == expected


def test_tokens_are_counted(generator) -> None:
    result = run(generator, PROMPT, EN, max_tokens=4, n=2)
    assert result.prompt_tokens == len(generator.encode(PROMPT)) + len(generator.encode(EN))
    assert result.completion_tokens == 16
    assert [(choice.prompt, choice.index) for choice in result.choices] == [
        (0, 0), (0, 1), (1, 2), (1, 3)
    ]  # fmt: skip


def test_count_penalty_is_its_formula() -> None:
    scores = np.zeros((2, 5), np.float32)
    CountPenalty(0.5, 0.25, 2)(scores, [[4, 4, 1, 3, 1], [4, 4]], [0, 1])
    np.testing.assert_allclose(scores, [[0, -1.0, 0, -0.75, 0], [0] * 5])


def test_count_penalty_changes_the_text_exactly(generator) -> None:
    ids = generator.encode(PROMPT)
    generated: list[int] = []
    model, state = generator.engine_model.current, None
    state = model.prefill(np.array([ids[:-1]]), model.start())
    last = ids[-1]
    for _ in range(15):
        logits, state = model.step(np.array([last]), state)
        counts = np.bincount(generated, minlength=logits.shape[1])
        last = int((logits[0] - 0.7 * (counts > 0) - 0.4 * counts).argmax())
        generated.append(last)
    (choice,) = run(generator, max_tokens=15, presence_penalty=0.7, frequency_penalty=0.4).choices
    assert choice.ids == generated


def test_everything_fits_the_context_or_is_refused(generator) -> None:
    size = len(generator.encode(EN))
    (choice,) = run(generator, EN, max_tokens=200 - size).choices
    assert len(choice.ids) == 200 - size
    (choice,) = run(generator, EN, max_tokens=None).choices
    assert len(choice.ids) == 200 - size
    with pytest.raises(BadRequest, match=r"context is 200 tokens") as refusal:
        run(generator, EN, max_tokens=201 - size)
    assert refusal.value.code == "context_length_exceeded"
    assert refusal.value.param == "prompt"
    with pytest.raises(BadRequest, match=r"are 241"):
        run(generator, [5] * 240, max_tokens=None)


def test_a_server_limits_the_tokens_of_a_request(generator) -> None:
    arguments = generate.Arguments(prompts=[PROMPT], max_tokens=20, n=2)
    with pytest.raises(BadRequest, match="40 tokens are more than the 30"):
        generate.run(generator, arguments, TaskContext(max_tokens=30))
    arguments = generate.Arguments(prompts=[PROMPT], max_tokens=None, n=2)
    result = generate.run(generator, arguments, TaskContext(max_tokens=30))
    assert result.completion_tokens == 30


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 2, "beam": 2}, "best_of"),
        ({"presence_penalty": 1.0, "beam": 2}, "presence_penalty"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(
    generator, settings: dict[str, Any], param: str
) -> None:
    with pytest.raises(BadRequest) as refusal:
        run(generator, **settings)
    assert refusal.value.param == param


def test_unknown_ids_are_refused(generator) -> None:
    with pytest.raises(DataError, match="token id 99999 is not in this model's vocabulary"):
        run(generator, [5, 99999])


def test_a_client_that_is_gone_ends_the_generation(generator) -> None:
    context = TaskContext()
    events: list[dict[str, Any]] = []

    def send(event: dict[str, Any]) -> None:
        events.append(event)
        context.cancel()

    context._send = send
    arguments = generate.Arguments(prompts=[PROMPT], max_tokens=100, stream=True)
    with pytest.raises(Canceled):
        generate.run(generator, arguments, context)
    assert len(events) == 1
