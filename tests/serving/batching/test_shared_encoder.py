"""Texts of many threads are encoded together and get what they get alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.engine.test_steppers import LENGTH, V, build_model

from regard.engine.encoders import FastEncoder
from regard.engine.library import library
from regard.engine.select import pack_module
from regard.errors import DataError
from regard.serving.batching.shared_encoder import SharedEncoder
from regard.serving.tasks.base import Canceled, TaskContext

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

KINDS = {"encoder": {}, "masked-lm": {}, "classifier": {"classes": 3}}


def build_encoder(kind: str) -> FastEncoder:
    packed = pack_module(build_model(kind, **KINDS[kind]), LENGTH)
    assert isinstance(packed, FastEncoder)
    return packed


def compute(encoder: FastEncoder, kind: str, number: int) -> object:
    generator = np.random.default_rng(number)
    counts = generator.integers(1, 12, int(generator.integers(1, 5)))
    rows = [generator.integers(0, V, count).tolist() for count in counts]
    if kind == "encoder":
        return encoder.vectors(rows, ("mean", "first", "max")[number % 3]).tolist()
    if kind == "classifier":
        return encoder.class_logits(rows).tolist()
    positions = [[int(generator.integers(0, count))] * (number % 3) for count in counts]
    return encoder.token_logits(rows, positions).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_texts_get_what_they_get_alone(kind: str) -> None:
    encoder = build_encoder(kind)
    shared = SharedEncoder(encoder)
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda number: compute(shared, kind, number), range(200)))
    assert together == [compute(encoder, kind, number) for number in range(200)]
    assert shared.stats()["steps"] < 200


def test_text_that_is_refused_leaves_the_others_alone() -> None:
    encoder = build_encoder("encoder")
    shared = SharedEncoder(encoder)

    def vector(token: int) -> object:
        try:
            return shared.vectors([[token]], "mean").tolist()
        except DataError:
            return "refused"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(vector, [1, V, 2, V + 5, 3] * 8))
    expected = [encoder.vectors([[token]], "mean").tolist() for token in (1, 2, 3)]
    assert results == [expected[0], "refused", expected[1], "refused", expected[2]] * 8


def test_request_that_is_canceled_is_not_computed() -> None:
    shared, context = SharedEncoder(build_encoder("encoder")), TaskContext()
    context.cancel()
    with context, pytest.raises(Canceled):
        shared.vectors([[1, 2]], "mean")
    assert shared.stats()["rows"] == 0
