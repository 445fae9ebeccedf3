"""The protocol of OpenAI, spoken by its own client to a real server."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

import regard
from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling
from regard.predictors.generator import TextGenerator
from regard.serving.app import application
from regard.serving.chat_templates import ChatTemplate
from regard.serving.errors import TimedOut, TooManyRequests
from regard.serving.model_info import ModelInfo
from regard.serving.settings import ServerSettings

from ..cli.random_run import write_random_run
from . import http_in_thread
from .conftest import EN, FR, SMALL, Server, serving, wait_until

PROMPT = "The animal didn't"
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
)
CHAT: list[Any] = [{"role": "user", "content": "Why didn't the animal cross the street?"}]


def client_of(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with client_of(server) as client:
        yield client


@pytest.fixture(scope="module")
def generator(runs: Mapping[str, Path]) -> TextGenerator:
    return regard.load_language_model(runs["lm"])


def test_models_are_listed(client) -> None:
    models = {model.id: model for model in client.models.list()}
    assert {"fr-en", "en-fr", "lm", "encoder"} <= models.keys()
    assert client.models.retrieve("lm") == models["lm"]
    assert models["lm"].created > 1_700_000_000
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("gpt-4")
    assert error.value.code == "model_not_found"


def test_completions_are_those_of_the_model(client, generator) -> None:
    expected = [generator.generate(prompt, 10) for prompt in (PROMPT, EN)]
    ids = [generator.encode(prompt) for prompt in (PROMPT, EN)]
    for prompt in ([PROMPT, EN], ids):
        answer = client.completions.create(model="lm", prompt=prompt, max_tokens=10, temperature=0)
        assert [choice.text for choice in answer.choices] == expected
        assert [choice.index for choice in answer.choices] == [0, 1]
        assert {choice.finish_reason for choice in answer.choices} == {"length"}
        assert answer.object == "text_completion"
        assert answer.model == "lm"
        assert answer.usage.prompt_tokens == sum(map(len, ids))
        assert answer.usage.completion_tokens == 20
        assert answer.usage.total_tokens == sum(map(len, ids)) + 20
    for prompt in (PROMPT, ids[0]):
        answer = client.completions.create(model="lm", prompt=prompt, temperature=0)
        assert answer.choices[0].text == generator.generate(PROMPT, 16)


def test_sampled_completions_are_those_of_the_seed(client, generator) -> None:
    decoding = DecodingConfig(sampling=Sampling(top_p=0.9, seed=11))
    answer = client.completions.create(model="lm", prompt=PROMPT, seed=11, n=3, top_p=0.9)
    texts = [choice.text for choice in answer.choices]
    assert texts[0] == generator.generate(PROMPT, 16, decoding)
    assert len(set(texts)) == 3
    best = client.completions.create(
        model="lm", prompt=PROMPT, seed=11, best_of=3, top_p=0.9, logprobs=0
    )
    scored = client.completions.create(
        model="lm", prompt=PROMPT, seed=11, n=3, top_p=0.9, logprobs=0
    )
    means = [np.mean(choice.logprobs.token_logprobs) for choice in scored.choices]
    assert best.choices[0].text == texts[int(np.argmax(means))]


def test_completions_have_log_probs(client, generator) -> None:
    answer = client.completions.create(
        model="lm", prompt=EN, max_tokens=3, temperature=0, echo=True, logprobs=2
    )
    (choice,) = answer.choices
    logprobs = choice.logprobs
    ids = generator.encode(EN)
    assert choice.text == EN + generator.generate(EN, 3)
    assert len(logprobs.tokens) == len(ids) + 3
    assert logprobs.token_logprobs[0] is logprobs.top_logprobs[0] is None
    (score,) = generator.score([EN])
    assert logprobs.token_logprobs[1 : len(ids)] == list(score.token_log_probs[:-1])
    for token, log_prob, top in list(
        zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True)
    )[1:]:
        assert 2 <= len(top) <= 3
        assert top[token] == log_prob
        assert max(top.values()) >= log_prob
    for token, offset in zip(logprobs.tokens, logprobs.text_offset, strict=True):
        assert choice.text[offset:].startswith(token) or "\ufffd" in token
    plain = client.completions.create(
        model="lm", prompt=EN, max_tokens=3, temperature=0, logprobs=2
    )
    assert plain.choices[0].logprobs.text_offset == logprobs.text_offset[len(ids) :]


def test_streamed_completions_equal_whole_ones(client) -> None:
    settings = {"model": "lm", "prompt": [PROMPT, EN], "seed": 3, "n": 2, "logprobs": 1}
    whole = client.completions.create(**settings, stop=["e"])
    texts, tokens, reasons = [""] * 4, [[], [], [], []], [None] * 4
    usage = None
    for chunk in client.completions.create(
        **settings, stop="e", stream=True, stream_options={"include_usage": True}
    ):
        assert chunk.id.startswith("cmpl-")
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += choice.logprobs.tokens if choice.logprobs else []
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert tokens == [choice.logprobs.tokens if choice.logprobs else [] for choice in whole.choices]
    assert usage == whole.usage
    assert not any("e" in text for text in texts)


def test_asynchronous_clients_are_answered_together(server, generator) -> None:
    async def complete() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as own:

            async def one(seed: int) -> str:
                answer = await own.completions.create(model="lm", prompt=PROMPT, seed=seed)
                return answer.choices[0].text

            async def another(seed: int) -> str:
                stream = await own.completions.create(
                    model="lm", prompt=PROMPT, seed=seed, stream=True
                )
                return "".join([chunk.choices[0].text async for chunk in stream])

            return await asyncio.gather(*map(one, range(6)), *map(another, range(6)))

    expected = [
        generator.generate(PROMPT, 16, DecodingConfig(sampling=Sampling(seed=seed)))
        for seed in range(6)
    ]
    assert asyncio.run(complete()) == expected * 2


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"suffix": "end"}, "suffix"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"temperature": 3}, "temperature"),
        ({"logprobs": 6}, "logprobs"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"n": 0}, "n"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"prompt": []}, "prompt"),
        ({"prompt": {"text": "a"}}, "prompt"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"extra_body": {"grammar": "x"}}, "grammar"),
    ],
)
def test_requests_that_cannot_be_answered_are_refused(
    client, settings: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(**{"model": "lm", "prompt": PROMPT, **settings})
    assert error.value.param == param
    assert error.value.type == "invalid_request_error"
    assert param in error.value.message


def test_errors_name_the_model_the_context_and_the_ids(client, generator) -> None:
    with pytest.raises(openai.NotFoundError) as error:
        client.completions.create(model="gpt-4", prompt=PROMPT)
    assert (error.value.code, error.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError, match="encoder is a model for encoder") as error:
        client.completions.create(model="encoder", prompt=PROMPT)
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as error:
            client.completions.create(model="lm", prompt=PROMPT, max_tokens=500, stream=stream)
        assert error.value.code == "context_length_exceeded"
        assert "200 tokens" in error.value.message
        assert f"{len(generator.encode(PROMPT)) + 500}" in error.value.message
    with pytest.raises(openai.BadRequestError, match="token id 99999"):
        client.completions.create(model="lm", prompt=[99999])


def test_unknown_paths_have_the_shape_of_the_protocol(server) -> None:
    answer = httpx.get(f"{server.url}/v1/assistants")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] is None
    assert httpx.get(f"{server.url}/v1/completions").json()["error"]["message"]


@pytest.fixture(scope="module")
def chatting(
    runs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    """Return a client of a server with one language model that has a chat template."""
    home = tmp_path_factory.mktemp("chatting")
    generator = regard.load_language_model(runs["lm"])
    lm = write_random_run(
        home / "chatty",
        "language-model",
        {"kind": "language-model", **SMALL},
        generator.tokenizer,
        {"max_length": 200},
        {"chat_template.jinja": TEMPLATE},
    )
    with serving(home / "log", lm, runs["lm"]) as server, client_of(server) as client:
        yield client


def test_a_language_model_answers_chats_by_its_template(chatting, generator) -> None:
    ids = ChatTemplate(TEMPLATE, generator.tokenizer).encode(CHAT)
    (expected,) = generator.search([ids], 12)[0]
    decode = generator.tokenizer.decode_after(ids)
    for model in ("chatty", "dummy"):
        answer = chatting.chat.completions.create(
            model=model, messages=CHAT, max_tokens=12, temperature=0
        )
        (choice,) = answer.choices
        assert choice.message.content == decode(expected.ids)
        assert choice.message.role == "assistant"
        assert answer.model == "chatty"
        assert answer.usage.prompt_tokens == len(ids)
        assert answer.usage.completion_tokens == len(expected.ids)
    whole = chatting.chat.completions.create(model="chatty", messages=CHAT, temperature=0)
    assert whole.usage.total_tokens == 200  # as many as fit the context
    parts = [{"type": "text", "text": CHAT[0]["content"]}]
    same = chatting.chat.completions.create(
        model="chatty",
        messages=[{"role": "user", "content": parts}],
        max_completion_tokens=12,
        temperature=0,
    )
    assert same.choices[0].message.content == decode(expected.ids)


def test_streamed_chats_equal_whole_ones(chatting) -> None:
    settings = {
        "model": "chatty",
        "messages": [{"role": "developer", "content": "Be brief."}, *CHAT],
        "max_tokens": 20,
        "seed": 4,
        "n": 2,
        "logprobs": True,
        "top_logprobs": 2,
    }
    whole = chatting.chat.completions.create(**settings)
    texts, tokens, reasons, roles = ["", ""], [[], []], [None, None], [None, None]
    usages = []
    for chunk in chatting.chat.completions.create(
        **settings, stream=True, stream_options={"include_usage": True}
    ):
        assert chunk.object == "chat.completion.chunk"
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            tokens[choice.index] += choice.logprobs.content if choice.logprobs else []
            roles[choice.index] = choice.delta.role or roles[choice.index]
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.message.content for choice in whole.choices]
    assert tokens == [choice.logprobs.content for choice in whole.choices]
    assert reasons == ["length", "length"]
    assert roles == ["assistant", "assistant"]
    assert usages == [whole.usage]
    for token in tokens[0]:
        assert len(token.top_logprobs) == 2
        assert token.bytes is None or bytes(token.bytes).decode() == token.token


def test_what_a_chat_cannot_do_is_refused(chatting) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    image = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}}
    for settings, param in (
        ({"tools": [tool]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [image]}]}, "messages.0.content"),
        ({"messages": [{"role": "tool", "content": "", "tool_call_id": "1"}]}, "messages.0.role"),
    ):
        with pytest.raises(openai.BadRequestError) as error:
            chatting.chat.completions.create(**{"model": "chatty", "messages": CHAT, **settings})
        assert param in error.value.message
    long = [{"role": "user", "content": FR * 20}]
    with pytest.raises(openai.BadRequestError) as error:
        chatting.chat.completions.create(model="chatty", messages=long)
    assert (error.value.code, error.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(openai.BadRequestError, match=r"add chat_template\.jinja") as error:
        chatting.chat.completions.create(model="lm", messages=CHAT)
    assert error.value.param == "model"


def chat_of(text: str, instruction: str | None = None) -> list[Any]:
    system = [] if instruction is None else [{"role": "system", "content": instruction}]
    return [*system, {"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("model", "instruction", "text", "translation"),
    [
        ("fr-en", "Translate to English.", "Le chat dort.", "The cat is sleeping."),
        ("fr-en", "Traduis en anglais", "Le chat dort.", "The cat is sleeping."),
        ("fr-en", None, "Le chat dort.", "The cat is sleeping."),
        ("fr-en", "You are a helpful assistant.", "Le chat dort.", "The cat is sleeping."),
        ("dummy", None, "Le chat dort.", "The cat is sleeping."),
        ("", None, "Translate to French, keep names:\n\nThe cat sleeps.", "Le chat dort."),
        ("fr-en", "Translate from English to French.", "The cat sleeps.", "Le chat dort."),
        ("en-fr", "fr", "The cat sleeps.", "Le chat dort."),
    ],
)
def test_a_translator_answers_chats(
    client, model: str, instruction: str | None, text: str, translation: str
) -> None:
    answer = client.chat.completions.create(model=model, messages=chat_of(text, instruction))
    assert answer.choices[0].message.content == translation
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 2
    chunks = client.chat.completions.create(
        model=model, messages=chat_of(text, instruction), stream=True
    )
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(parts) == translation


def test_a_translator_takes_settings_of_chats(client) -> None:
    messages = chat_of("Le chat dort. Le chien court.")
    whole = client.chat.completions.create(model="fr-en", messages=messages, n=3)
    texts = [choice.message.content for choice in whole.choices]
    assert len(set(texts)) == len(texts) == 3
    stopped = client.chat.completions.create(model="fr-en", messages=messages, stop=["sl"])
    assert stopped.choices[0].message.content == texts[0].partition("sl")[0]
    cut = client.chat.completions.create(model="fr-en", messages=messages, max_tokens=2)
    assert cut.choices[0].finish_reason == "length"
    assert cut.usage.completion_tokens == 2
    assert texts[0].startswith(cut.choices[0].message.content)
    same = client.chat.completions.create(
        model="fr-en", messages=messages, max_tokens=-1, temperature=0.7
    )
    assert same.choices[0].message.content == texts[0]
    with pytest.raises(openai.BadRequestError, match="ask for German, and this model translates"):
        client.chat.completions.create(
            model="fr-en", messages=chat_of("Le chat dort.", "Translate to German.")
        )
    with pytest.raises(openai.BadRequestError, match="no message of the user"):
        client.chat.completions.create(
            model="fr-en", messages=[{"role": "system", "content": "Translate to English."}]
        )


def test_a_client_that_hangs_up_ends_its_request(server, client) -> None:
    def active() -> int:
        metrics = server.client.get("/metrics").text
        numbers = re.findall(r'^regard_active_requests\{model="lm"\} (\S+)', metrics, re.MULTILINE)
        return int(float(numbers[0]))

    with client.completions.create(
        model="lm", prompt=PROMPT, max_tokens=190, n=16, stream=True
    ) as chunks:
        next(iter(chunks))
    wait_until(lambda: active() == 0)
    assert client.completions.create(model="lm", prompt=PROMPT).choices


def test_the_example_of_the_guide(server, capsys) -> None:
    guide = Path(__file__).parents[2].joinpath("docs/how-to/serving.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(from openai.*?)```", guide, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.replace("http://127.0.0.1:8000", server.url), names)
    names["client"].close()
    assert capsys.readouterr().out == "The cat is sleeping.\n"


class FailingModels:
    """Models whose requests fail: before the first event, or after it."""

    def get(self, name: str) -> ModelInfo:
        return ModelInfo(name, "language-model", ("generate",))

    async def stream(self, name: str, *_: object) -> AsyncIterator[dict[str, Any]]:
        if name == "late":
            yield {"choice": 0, "text": "once", "tokens": []}
            raise TimedOut("the request took too long; ask for less at once.")
        raise TooManyRequests("the queue is full.", retry_after=2)


def test_failures_of_streams_reach_the_client() -> None:
    app = application(FailingModels(), ServerSettings(()))  # type: ignore[arg-type]
    with (
        http_in_thread.serving(app) as port,
        openai.OpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0
        ) as client,
    ):
        with pytest.raises(openai.RateLimitError, match="the queue is full") as error:
            client.completions.create(model="early", prompt=PROMPT, stream=True)
        assert error.value.response.headers["retry-after"] == "2"
        chunks = client.completions.create(model="late", prompt=PROMPT, stream=True)
        assert next(chunks).choices[0].text == "once"
        with pytest.raises(openai.APIError, match="the request took too long"):
            next(chunks)


def test_embeddings_are_those_of_the_model(client, runs) -> None:
    embedder = regard.load_embedder(runs["encoder"])
    expected = embedder.vectors([EN, FR])
    ids = [embedder.encode(text) for text in (EN, FR)]
    for given in ([EN, FR], ids):
        for settings in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            answer = client.embeddings.create(model="encoder", input=given, **settings)
            assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, ids))
            for index, own in enumerate(answer.data):
                vector = own.embedding
                if isinstance(vector, str):
                    vector = np.frombuffer(base64.b64decode(vector), "<f4")
                np.testing.assert_array_equal(np.float32(vector), expected[index])
    one = client.embeddings.create(model="encoder", input=EN)
    assert len(one.data) == 1
    with pytest.raises(openai.BadRequestError) as error:
        client.embeddings.create(model="encoder", input=EN, dimensions=4)
    assert error.value.param == "dimensions"
    with pytest.raises(openai.BadRequestError, match="is empty"):
        client.embeddings.create(model="encoder", input=[""])
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="text-embedding-3-small", input=EN)
