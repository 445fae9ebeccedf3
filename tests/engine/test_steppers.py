"""Decoding with the engine against torch: logits, states, batches and greedy decoding."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import validate
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy, stream_tokens
from regard.engine.library import library
from regard.engine.packing import UnsupportedError
from regard.engine.steppers import FastEncoderDecoder, FastLanguageModel
from regard.errors import DataError
from regard.models.base import ModelSpec

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

V, LENGTH = 50, 40

SIZES = {"dim": 48, "heads": 4, "ffn_dim": 72, "layers": 2, "dropout": 0.0, "max_length": LENGTH}

VARIANTS = {
    "defaults": {},
    "post-norm": {"norm_first": False},
    "rms, gated, no bias": {"norm": "rms", "feed_forward": "gated", "bias": False},
    "gelu, learned positions": {
        "feed_forward": {"kind": "dense", "activation": "gelu"},
        "position": "learned",
    },
    "gelu-tanh, embedding norm": {
        "feed_forward": {"kind": "dense", "activation": "gelu-tanh"},
        "embedding_norm": True,
    },
    "rotary": {"position": "rotary"},
    "rotary halves, grouped keys": {
        "position": {"kind": "rotary", "pairs": "halves"},
        "kv_heads": 2,
    },
    "alibi": {"position": "alibi"},
    "distance bias": {"position": {"kind": "distance", "clip": 5}},
    "no positions, small heads": {"position": "none", "head_dim": 5, "scale_embedding": False},
    "output bias": {"output_bias": True},
}


def build_model(kind: str, **settings: object) -> torch.nn.Module:
    torch.manual_seed(1)
    model = validate(ModelSpec, {"kind": kind, **SIZES, **settings}, "test").build(V)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)  # norms and biases too
    return model.eval()


@cache
def shared_engine() -> FastEncoderDecoder:
    """Build one engine for all examples of a property test."""
    return FastEncoderDecoder(build_model("encoder-decoder"), LENGTH)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_encoder_decoder_logits_equal_torch(variant: dict[str, object]) -> None:
    model = build_model("encoder-decoder", **variant)
    engine = FastEncoderDecoder(model, LENGTH)
    source = torch.randint(V, (3, 9))
    source_mask = torch.arange(9) < torch.tensor([9, 4, 6])[:, None]
    target = torch.randint(V, (3, 7))
    with torch.inference_mode():
        expected = model(source, source_mask, target)
        state = engine.start(source, source_mask)
        together, _ = engine.extend(target, state)
        for step in range(7):
            logits, state = engine.step(target[:, step], state)
            torch.testing.assert_close(logits, expected[:, step], rtol=1e-4, atol=1e-4)
            assert torch.equal(logits, together[:, step])


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_language_model_logits_equal_torch(variant: dict[str, object]) -> None:
    model = build_model("language-model", **variant)
    engine = FastLanguageModel(model, LENGTH)
    ids = torch.randint(V, (2, 12))
    with torch.inference_mode():
        expected = model(ids)
    state = engine.start()
    first, state = engine.extend(ids[:, :5], state)
    rest, state = engine.extend(ids[:, 5:], state)
    torch.testing.assert_close(torch.cat([first, rest], 1), expected, rtol=1e-4, atol=1e-4)
    assert state.length == 12


def test_state_is_reordered_repeated_and_truncated() -> None:
    model = build_model("encoder-decoder")
    engine = FastEncoderDecoder(model, LENGTH)
    source, source_mask = torch.randint(V, (2, 6)), torch.ones(2, 6, dtype=torch.bool)
    ids = torch.randint(V, (2, 5))
    rows = torch.tensor([1, 0, 1])
    with torch.inference_mode():
        state = engine.extend(ids, engine.start(source, source_mask))[1].reorder(rows)
        more = torch.randint(V, (3, 3))
        outputs, _ = engine.extend(more, state)
        expected = model(source[rows], source_mask[rows], torch.cat([ids[rows], more], 1))[:, 5:]
        torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-4)
        truncated = state.truncate(2)
        outputs, _ = engine.extend(more, truncated)
        expected = model(source[rows], source_mask[rows], torch.cat([ids[rows][:, :2], more], 1))[
            :, 2:
        ]
        torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-4)


@given(st.lists(st.integers(0, 11), min_size=1, max_size=12), st.sampled_from([1, 4]))
@settings(max_examples=25, deadline=None)
def test_translation_does_not_depend_on_the_batch(rows: list[int], width: int) -> None:
    engine = shared_engine()
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 12, (12,), generator=generator).tolist()
    sources = [torch.randint(4, V, (length,), generator=generator) for length in lengths]

    def translate(batch: list[int], extra: int) -> list[object]:
        longest = max(lengths[row] for row in batch) + extra
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        for index, row in enumerate(batch):
            ids[index, : lengths[row]] = sources[row]
        source_mask = torch.arange(longest) < torch.tensor([lengths[row] for row in batch])[:, None]
        state, first = engine.start(ids, source_mask), torch.full((len(batch),), 2)
        limits = [10 + row for row in batch]
        if width == 1:
            return list(greedy(engine, state, first, 3, limits))
        return list(beam_search(engine, state, first, 3, limits, width))

    alone = {row: translate([row], 0)[0] for row in set(rows)}
    assert translate(rows, 3) == [alone[row] for row in rows]


def test_unsupported_models_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Relative"):
        FastLanguageModel(build_model("language-model", position="relative"), LENGTH)
    with pytest.raises(UnsupportedError, match="Experts"):
        FastLanguageModel(build_model("language-model", feed_forward="moe"), LENGTH)


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_fused_greedy_equals_step_by_step(kind: str) -> None:
    model = build_model(kind)
    first, limits = torch.randint(0, V, (5,)), [7, 1, 12, 4, 9]
    if kind == "encoder-decoder":
        engine = FastEncoderDecoder(model, LENGTH)
        source_mask = torch.arange(6) < torch.tensor([[6], [3], [1], [5], [2]])
        state = engine.start(torch.randint(0, V, (5, 6)), source_mask)
    else:
        engine = FastLanguageModel(model, LENGTH)
        state = engine.start()
    for prompt in (None, torch.randint(0, V, (5, 3))):
        if prompt is not None:
            _, state = engine.extend(prompt, state)
            state = state.reorder(torch.tensor([4, 0, 1, 1, 2]))
        for end in range(0, V, 5):
            expected: list[list[int]] = [[] for _ in limits]
            for tokens in stream_tokens(engine, state, first, end, limits):
                for row, token in tokens:
                    expected[row].append(token)
            assert engine.greedy(first, state, end, limits) == expected
    for parameter in model.parameters():
        parameter.data.fill_(float("nan"))
    nan_engine = type(engine)(model, LENGTH)
    nan_state = state if kind == "encoder-decoder" else nan_engine.start()
    assert all(
        max(output, default=0) < V for output in nan_engine.greedy(first, nan_state, V - 1, limits)
    )
    with pytest.raises(DataError, match="was given more"):
        engine.greedy(first, state, 0, [LENGTH] * 5)
