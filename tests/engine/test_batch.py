"""Requests that join and leave a batch get what they get alone."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import validate
from regard.engine.batch import DecodingBatch, Joining
from regard.engine.library import library
from regard.engine.search import BeamSettings, FoundHypothesis
from regard.engine.select import pack_module
from regard.engine.states import Extension, FastState
from regard.engine.steppers import FastEncoderDecoder, FastLanguageModel
from regard.errors import DataError
from regard.models.base import ModelSpec

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

V, END, LENGTH = 50, 3, 40
SIZES = {"dim": 48, "heads": 4, "ffn_dim": 72, "layers": 2, "dropout": 0.0, "max_length": LENGTH}

Engine = FastEncoderDecoder | FastLanguageModel


@cache
def engine(kind: str) -> Engine:
    torch.manual_seed(1)
    model = validate(ModelSpec, {"kind": kind, **SIZES}, "test").build(V)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    packed = pack_module(model.eval(), LENGTH)
    assert isinstance(packed, FastEncoderDecoder | FastLanguageModel)
    return packed


def started(kind: str, number: int) -> FastState:
    """Return the state of a source and a prompt that the number chooses."""
    model, generator = engine(kind), np.random.default_rng(number)
    if isinstance(model, FastLanguageModel):
        state = model.start()
    else:
        source = generator.integers(0, V, (1, int(generator.integers(1, 9))))
        state = model.start(source, np.ones_like(source, dtype=bool))
    prompt = generator.integers(0, V, (1, int(generator.integers(0, 6))))
    return model.prefill(prompt, state) if prompt.size else state


def request(kind: str, number: int) -> Joining:
    generator = np.random.default_rng(100 + number)
    beam = None
    if number % 3:
        width = int(generator.integers(1, 6))
        beam = BeamSettings(width, 1.0, int(generator.integers(1, width + 1)), number % 2 == 0)
    ids, limit = generator.integers(0, V, 1), int(generator.integers(0, 15))
    return Joining(ids, started(kind, number), END, limit, beam)


def alone(kind: str, one: Joining) -> list[FoundHypothesis]:
    decoder = engine(kind).decoder
    return decoder.decode(one.ids, one.state, one.end, [one.limit], one.beam)[0]


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(st.lists(st.integers(0, 20), max_size=4), min_size=1, max_size=6),
    extended=st.integers(0, 3),
    leaving=st.booleans(),
)
@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model"])
def test_requests_get_what_they_get_alone(
    kind: str, steps: list[list[int]], extended: int, leaving: bool
) -> None:
    batch, found, left = DecodingBatch(engine(kind).decoder), {}, set()
    requests: dict[int, Joining] = {}
    tokens: dict[int, list[int]] = {}
    remaining = list(steps)
    while remaining or len(batch):
        for number in remaining.pop(0) if remaining else []:
            one = request(kind, number)
            requests[batch.join(one)] = one
        if leaving and len(batch) > 2 and not left:
            left.add(max(requests))
            batch.leave(max(requests))
        ids, own = np.full((1, extended + 1), 7), started(kind, extended)
        extensions = [Extension(ids, own, extended)] * extended
        advanced = batch.advance(extensions)
        for logits in advanced.logits:
            expected, _ = engine(kind).decoder.extend(ids, own, extended)
            np.testing.assert_array_equal(logits, expected)
        found |= advanced.done
        for number, token in advanced.tokens.items():
            tokens.setdefault(number, []).append(token)
    assert found.keys() == requests.keys() - left
    for number, hypotheses in found.items():
        assert hypotheses == alone(kind, requests[number])
        if requests[number].beam is None:
            assert tokens.get(number, []) == hypotheses[0].ids


def test_request_that_does_not_fit_is_refused() -> None:
    decoder, state = engine("language-model").decoder, FastState()
    batch = DecodingBatch(decoder)
    for one in (
        Joining(np.array([V]), state, END, 5),
        Joining(np.array([1]), state, V, 5),
        Joining(np.array([1]), state, END, LENGTH + 1),
    ):
        with pytest.raises(DataError):
            batch.join(one)
    assert not len(batch)
    assert batch.advance().done == {}


@pytest.mark.parametrize("beam", [None, BeamSettings(3, 1.0, 1, False)])
def test_logits_that_are_not_finite_end_their_request_only(beam: BeamSettings | None) -> None:
    model, source = engine("encoder-decoder"), np.array([[5, 6, 7]])
    assert isinstance(model, FastEncoderDecoder)
    state = model.start(source, np.ones_like(source, dtype=bool))
    damaged = model.start(source, np.ones_like(source, dtype=bool))
    assert damaged.source is not None
    damaged.source.blocks[0][:] = np.nan
    batch = DecodingBatch(model.decoder)
    good = Joining(np.array([2]), state, END, 6, beam)
    numbers = [batch.join(Joining(np.array([2]), part, END, 6, beam)) for part in (damaged, state)]
    advanced = batch.advance([Extension(np.array([[2]]), part, 1) for part in (state, damaged)])
    assert list(advanced.failed) == numbers[:1]
    assert [error is None for error in advanced.errors] == [True, False]
    while len(batch):
        advanced = batch.advance()
    assert advanced.done == {numbers[1]: alone("encoder-decoder", good)}
