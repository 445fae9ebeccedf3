"""Requests of many threads share decoding steps and get what they get alone."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import validate
from regard.decoding.config import Constraints, DecodingConfig, decode
from regard.decoding.sampling import Sampling
from regard.engine.library import library
from regard.engine.select import pack_module
from regard.engine.steppers import FastEncoderDecoder, FastLanguageModel
from regard.errors import DataError
from regard.models.base import ModelSpec
from regard.serving.batching.prefix_cache import CHUNK
from regard.serving.batching.scheduler import MAX_ROWS
from regard.serving.batching.shared_model import SharedModel
from regard.serving.errors import TimedOut
from regard.serving.tasks.base import Canceled, TaskContext

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

V, START, END, LENGTH = 50, 2, 3, 400
SIZES = {"dim": 48, "heads": 4, "ffn_dim": 72, "layers": 2, "dropout": 0.0, "max_length": LENGTH}

DECODING = [
    DecodingConfig(),
    DecodingConfig(beam=4),
    DecodingConfig(beam=3, n_best=2, early_stopping=True),
    DecodingConfig(sampling=Sampling(temperature=1.2, seed=5)),
    DecodingConfig(no_repeat_ngram=2, repetition_penalty=1.3),
    DecodingConfig(beam=4, beam_groups=2),
    DecodingConfig(beam=2, suppress_phrases=[[7], [9, 11]]),
]


@cache
def engine(kind: str) -> Any:
    torch.manual_seed(1)
    model = validate(ModelSpec, {"kind": kind, **SIZES}, "test").build(V)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return pack_module(model.eval(), LENGTH)


@cache
def shared(kind: str) -> SharedModel:
    model = engine(kind)
    assert isinstance(model, FastEncoderDecoder | FastLanguageModel)
    return SharedModel(model)


def answer(model: Any, kind: str, number: int) -> object:
    """Decode what the number chooses: one or more rows, with settings of any kind."""
    generator = np.random.default_rng(number)
    rows = int(generator.integers(1, 4))
    first = generator.integers(0, V, rows)
    if kind == "encoder-decoder":
        lengths = generator.integers(1, 12, rows)
        source = generator.integers(0, V, (rows, 12))
        state = model.start(source, np.arange(12) < lengths[:, None])
    else:
        rows, first = 1, first[:1]
        prompt = np.random.default_rng(number % 5).integers(0, V, (1, 3 * CHUNK))
        state = model.prefill(prompt[:, : int(generator.integers(1, 3 * CHUNK))], model.start())
    limits = generator.integers(0, 25, rows).tolist()
    config = DECODING[number % len(DECODING)]
    constraints = None
    if number % 11 == 1 and config.sampling is None and config.beam_groups == 1:
        constraints = Constraints(phrases={row: [[5, 6]] for row in range(rows)})
        limits = [limit + 4 for limit in limits]
    found = decode(model, state, first, END, limits, config, constraints)
    return [[(one.ids, one.finished, repr(one.score)) for one in row] for row in found]


@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model"])
def test_answers_under_load_are_those_of_each_request_alone(kind: str) -> None:
    numbers, model = [number % 60 for number in range(180)], shared(kind)
    with ThreadPoolExecutor(24) as pool:
        together = list(pool.map(lambda number: answer(model, kind, number), numbers))
    alone = {number: answer(engine(kind), kind, number) for number in set(numbers)}
    assert together == [alone[number] for number in numbers]
    statistics = model.scheduler.statistics
    assert statistics.rows > 2 * statistics.steps  # the steps were shared


def test_stream_yields_the_tokens_of_greedy_decoding() -> None:
    model = engine("language-model")
    for first in range(10):
        ids = np.array([first])
        (expected,) = model.greedy(ids, model.start(), END, [30])
        stream = shared("language-model").greedy_stream(ids, model.start(), END, 30)
        assert list(stream) == expected


def test_stream_that_is_closed_leaves_the_batch() -> None:
    model = SharedModel(engine("language-model"))
    stream = model.greedy_stream(np.array([START]), model.start(), V - 1, LENGTH - 1)
    next(stream)
    stream.close()
    for _ in range(1000):
        if not len(model.scheduler._batch):
            break
        time.sleep(0.001)
    assert model.scheduler.statistics.tokens < LENGTH - 1


def test_shared_beginnings_of_prompts_are_computed_once() -> None:
    model, reference = SharedModel(engine("language-model")), engine("language-model")
    ids = np.random.default_rng(3).integers(0, V, (1, 4 * CHUNK + 9))
    other = ids.copy()
    other[0, 3 * CHUNK + 1] += 1
    for prompt, hits in ((ids, 0), (ids, 4), (other, 4 + 3), (ids[:, : CHUNK + 1], 8)):
        state = model.prefill(prompt, model.start())
        expected, _ = reference.step(np.array([7]), reference.prefill(prompt, reference.start()))
        logits, _ = model.step(np.array([7]), state)
        np.testing.assert_array_equal(logits, expected)
        assert model.prefixes.hits == hits


def test_prefix_cache_is_bounded() -> None:
    model = SharedModel(engine("language-model"))
    model.prefixes._max_chunks = 3
    for seed in range(6):
        ids = np.random.default_rng(seed).integers(0, V, (1, 2 * CHUNK))
        model.prefill(ids, model.start())
    assert len(model.prefixes._states) == 3


def long_request(model: SharedModel, context: TaskContext, errors: list[BaseException]) -> None:
    first = np.array([START])
    try:
        with context:
            while True:
                model.greedy(first, model.start(), V - 1, [LENGTH - 1])
    except BaseException as error:
        errors.append(error)


def test_request_that_is_canceled_leaves_at_the_next_step() -> None:
    model, context = SharedModel(engine("language-model")), TaskContext()
    errors: list[BaseException] = []
    thread = threading.Thread(target=long_request, args=(model, context, errors))
    thread.start()
    while not model.scheduler._decoding:
        time.sleep(0.001)
    context.cancel()
    thread.join(5)
    assert not thread.is_alive()
    assert isinstance(errors[0], Canceled)
    assert not len(model.scheduler._batch)


def test_request_ends_when_its_time_is_over() -> None:
    model, context = SharedModel(engine("language-model")), TaskContext(seconds=0.2)
    errors: list[BaseException] = []
    thread = threading.Thread(target=long_request, args=(model, context, errors))
    thread.start()
    thread.join(5)
    assert isinstance(errors[0], TimedOut)


def test_request_of_many_rows_does_not_delay_another() -> None:
    """While 1,000 rows wait, a row joins the batch after at most one round of it."""
    model = SharedModel(engine("language-model"))
    many = threading.Thread(
        target=lambda: model.greedy(
            np.full(1000, START),
            model.start().reorder(np.zeros(1000, np.int64)),
            V - 1,
            [60] * 1000,
        )
    )
    many.start()
    while len(model.scheduler._batch) < MAX_ROWS:
        time.sleep(0.001)
    before = model.scheduler.statistics.steps
    model.greedy(np.array([START]), model.start(), V - 1, [5])
    assert model.scheduler.statistics.steps - before <= 60 + 5 + 2
    assert many.is_alive()
    many.join()


def test_request_that_is_refused_leaves_the_others_alone() -> None:
    model, results = SharedModel(engine("encoder-decoder")), {}

    def translate(token: int) -> None:
        source = np.array([[token]])
        try:
            state = model.start(source, np.ones_like(source, dtype=bool))
            results[token] = model.greedy(np.array([START]), state, END, [9])
        except DataError as error:
            results[token] = error

    threads = [threading.Thread(target=translate, args=(t,)) for t in (4, V, 5, V + 1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {token for token in results if isinstance(results[token], DataError)} == {V, V + 1}


def test_step_that_fails_ends_its_requests_and_the_next_ones_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = SharedModel(engine("language-model"))
    first = np.array([START])
    expected = model.greedy(first, model.start(), END, [9])
    batch, failing = model.scheduler._batch, [True]
    advance = batch.advance

    def fail_once(*arguments: Any) -> Any:
        if failing.pop():
            raise DataError("there is not enough memory for this batch; compute fewer rows.")
        return advance(*arguments)

    monkeypatch.setattr(batch, "advance", fail_once)
    with pytest.raises(DataError, match="memory"):
        model.greedy(first, model.start(), END, [9])
    assert model.greedy(first, model.start(), END, [9]) == expected
