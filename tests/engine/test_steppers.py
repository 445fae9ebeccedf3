"""Decoding with the engine against torch: logits, states, batches and greedy decoding."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.config import validate
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy, stream_tokens
from regard.engine.library import library
from regard.engine.plan import UnsupportedError
from regard.engine.select import pack_module
from regard.engine.states import Extension
from regard.engine.steppers import FastEncoderDecoder, FastLanguageModel, FastModel
from regard.errors import DataError, RunError
from regard.models.base import ModelSpec
from regard.models.language_model import LanguageModel
from regard.models.prune import retain_heads

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


def random_ids(*shape: int) -> NDArray:
    return torch.randint(V, shape).numpy()


def torch_logits(model: torch.nn.Module, *arrays: NDArray) -> NDArray:
    """Return the logits of a forward pass."""
    with torch.inference_mode():
        return model(*map(torch.from_numpy, arrays)).numpy()


def assert_close(actual: NDArray, expected: NDArray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@cache
def shared_engine() -> FastEncoderDecoder:
    """Build one engine for all examples of a property test."""
    return pack_module(build_model("encoder-decoder"), LENGTH)


@cache
def shared_language_model() -> FastLanguageModel:
    return pack_module(build_model("language-model", position="rotary"), LENGTH)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_encoder_decoder_logits_equal_torch(variant: dict[str, object]) -> None:
    model = build_model("encoder-decoder", **variant)
    engine = pack_module(model, LENGTH)
    source, target = random_ids(3, 9), random_ids(3, 7)
    source_mask = np.arange(9) < np.array([9, 4, 6])[:, None]
    expected = torch_logits(model, source, source_mask, target)
    state = engine.start(source, source_mask)
    together, _ = engine.extend(target, state)
    for step in range(7):
        logits, state = engine.step(target[:, step], state)
        assert_close(logits, expected[:, step])
        assert (logits == together[:, step]).all()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_language_model_logits_equal_torch(variant: dict[str, object]) -> None:
    model = build_model("language-model", **variant)
    engine = pack_module(model, LENGTH)
    ids = random_ids(2, 12)
    first, state = engine.extend(ids[:, :5], engine.start())
    rest, state = engine.extend(ids[:, 5:], state)
    assert_close(np.concatenate([first, rest], 1), torch_logits(model, ids))
    assert state.length == 12


def test_state_is_reordered_repeated_and_truncated() -> None:
    model = build_model("encoder-decoder")
    engine = pack_module(model, LENGTH)
    source, source_mask, ids = random_ids(2, 6), np.ones((2, 6), bool), random_ids(2, 5)
    rows, more = np.array([1, 0, 1]), random_ids(3, 3)
    state = engine.extend(ids, engine.start(source, source_mask))[1].reorder(rows)
    for length in (5, 2):
        outputs, _ = engine.extend(more, state.truncate(length))
        target = np.concatenate([ids[rows][:, :length], more], 1)
        expected = torch_logits(model, source[rows], source_mask[rows], target)
        assert_close(outputs, expected[:, length:])


@given(st.lists(st.integers(0, 11), min_size=1, max_size=12), st.sampled_from([1, 4]))
@settings(max_examples=25, deadline=None)
def test_translation_does_not_depend_on_the_batch(rows: list[int], width: int) -> None:
    engine = shared_engine()
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 12, (12,), generator=generator).tolist()
    sources = [torch.randint(4, V, (length,), generator=generator) for length in lengths]

    def translate(batch: list[int], extra: int) -> list[object]:
        longest = max(lengths[row] for row in batch) + extra
        ids = np.zeros((len(batch), longest), np.int64)
        for index, row in enumerate(batch):
            ids[index, : lengths[row]] = sources[row]
        source_mask = np.arange(longest) < np.array([lengths[row] for row in batch])[:, None]
        state, first = engine.start(ids, source_mask), np.full(len(batch), 2)
        limits = [10 + row for row in batch]
        if width == 1:
            return list(greedy(engine, state, first, 3, limits))
        return list(beam_search(engine, state, first, 3, limits, width))

    alone = {row: translate([row], 0)[0] for row in set(rows)}
    assert translate(rows, 3) == [alone[row] for row in rows]


@settings(deadline=None, max_examples=30)
@given(
    pasts=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    counts=st.lists(st.integers(1, 7), min_size=6, max_size=6),
)
@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model"])
def test_rows_of_different_lengths_are_computed_as_alone(
    kind: str, pasts: list[int], counts: list[int]
) -> None:
    engine = shared_engine() if kind == "encoder-decoder" else shared_language_model()
    states, ids = [], []
    for number, past in enumerate(pasts):
        sources = random_ids(1, number + 1)
        start = (sources, np.ones_like(sources, dtype=bool)) if kind == "encoder-decoder" else ()
        state = engine.start(*start)
        states.append(engine.extend(random_ids(1, past), state)[1] if past else state)
        ids.append(random_ids(counts[number]))
    wanted = [number % (len(row) + 1) for number, row in enumerate(ids)]
    parts = [Extension(row[None], *part) for row, *part in zip(ids, states, wanted, strict=True)]
    logits, after = engine.decoder.extend_all(parts)
    last = [Extension(row[None, -1:], state, 1) for row, state in zip(ids, after, strict=True)]
    again, _ = engine.decoder.extend_all(last)
    for number, state in enumerate(states):
        alone, own = engine.extend(ids[number][None], state)
        count = alone.shape[1]
        np.testing.assert_array_equal(logits[number], alone[:, count - wanted[number] :])
        alone, _ = engine.extend(ids[number][None, -1:], own)
        np.testing.assert_array_equal(again[number], alone)


def test_unsupported_models_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Relative"):
        pack_module(build_model("language-model", position="relative"), LENGTH)
    with pytest.raises(UnsupportedError, match="Experts"):
        pack_module(build_model("language-model", feed_forward="moe"), LENGTH)


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_fused_greedy_equals_step_by_step(kind: str) -> None:
    model = build_model(kind)
    first, limits = random_ids(5), [7, 1, 12, 4, 9]
    if kind == "encoder-decoder":
        engine = pack_module(model, LENGTH)
        source_mask = np.arange(6) < np.array([[6], [3], [1], [5], [2]])
        state = engine.start(random_ids(5, 6), source_mask)
    else:
        engine = pack_module(model, LENGTH)
        state = engine.start()
    for prompt in (None, random_ids(5, 3)):
        if prompt is not None:
            _, state = engine.extend(prompt, state)
            state = state.reorder(np.array([4, 0, 1, 1, 2]))
        for end in range(0, V, 5):
            expected: list[list[int]] = [[] for _ in limits]
            for tokens in stream_tokens(engine, state, first, end, limits):
                for row, token in tokens:
                    expected[row].append(token)
            assert engine.greedy(first, state, end, limits) == expected
    with pytest.raises(DataError, match="was given more"):
        engine.greedy(first, state, 0, [LENGTH] * 5)


def test_fused_greedy_of_many_rows_equals_each_row_alone() -> None:
    engine, rows = shared_engine(), 120  # so many that threads share the rows of the output layer
    source, first = random_ids(rows, 8), random_ids(rows)
    source_mask = np.arange(8) < np.random.default_rng(0).integers(1, 9, (rows, 1))
    together = engine.greedy(first, engine.start(source, source_mask), 3, [6] * rows)
    for row in range(0, rows, 7):
        alone = engine.start(source[[row]], source_mask[[row]])
        assert engine.greedy(first[[row]], alone, 3, [6]) == [together[row]]


class StepByStep:
    """The steps of an engine, without its own beam search."""

    def __init__(self, engine: FastModel) -> None:
        self.step = engine.step


@given(
    st.lists(st.integers(0, 14), min_size=1, max_size=6),
    st.integers(1, 7),
    st.integers(1, 7),
    st.sampled_from([0.0, 0.6, 1.0, 2.5]),
    st.booleans(),
    st.integers(0, V - 1),
)
@settings(max_examples=60, deadline=None)
def test_fused_beam_equals_step_by_step(
    limits: list[int], width: int, n_best: int, penalty: float, early: bool, end: int
) -> None:
    engine = shared_engine()
    rows, generator = len(limits), np.random.default_rng(end)
    source_mask = np.arange(8) < generator.integers(1, 9, (rows, 1))
    state = engine.start(generator.integers(0, V, (rows, 8)), source_mask)
    _, state = engine.extend(generator.integers(0, V, (rows, 2)), state)
    state = state.reorder(generator.permutation(rows))
    arguments = (state, generator.integers(0, V, rows), end, limits, width, penalty)
    fused = beam_search(engine, *arguments, n_best=n_best, early_stopping=early)
    assert fused == beam_search(StepByStep(engine), *arguments, n_best=n_best, early_stopping=early)
    assert all(1 <= len(hypotheses) <= n_best for hypotheses in fused)


def test_beam_as_wide_as_the_vocabulary_and_wider() -> None:
    engine, state = started(build_model("language-model"), rows=2)
    for width in (V, V + 3):
        arguments = (state, np.array([5, 6]), 3, [4, 3], width)
        assert beam_search(engine, *arguments) == beam_search(StepByStep(engine), *arguments)


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_limit_of_zero_gives_an_empty_row(kind: str) -> None:
    engine, state = started(build_model(kind), rows=3)
    first = random_ids(3)
    assert engine.greedy(first, state, 3, [0, 0, 0]) == [[], [], []]
    expected = engine.greedy(first, state, 3, [5, 5, 5])
    assert engine.greedy(first, state, 3, [5, 0, 5]) == [expected[0], [], expected[2]]


def started(model: torch.nn.Module, rows: int) -> tuple[FastModel, object]:
    """Return the engine of a model and its state before the first token."""
    if isinstance(model, LanguageModel):
        engine = pack_module(model, LENGTH)
        return engine, engine.start()
    engine = pack_module(model, LENGTH)
    return engine, engine.start(random_ids(rows, 6), np.ones((rows, 6), bool))


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
@pytest.mark.parametrize("outside", [-1, V, 2**31 + 1, -(2**40)])
def test_ids_outside_the_vocabulary_are_refused(kind: str, outside: int) -> None:
    engine, state = started(build_model(kind), rows=2)
    message = f"token id {outside} is not in this model's vocabulary, 0 to {V - 1};"
    ids = np.array([[1, 2, 3], [4, outside, 5]])
    with pytest.raises(DataError, match=message):
        engine.extend(ids, state)
    with pytest.raises(DataError, match=message):
        engine.step(ids[:, 1], state)
    with pytest.raises(DataError, match=message):
        engine.greedy(ids[:, 1], state, 3, [4, 4])
    with pytest.raises(DataError, match=message):
        engine.greedy(ids[:, 0], state, outside, [4, 4])
    if isinstance(engine, FastEncoderDecoder):
        mask = np.ones(ids.shape, bool)
        with pytest.raises(DataError, match=message):
            engine.start(ids, mask)
        mask[1, 1] = False  # padding is not read
        engine.start(ids, mask)


def test_ids_are_compared_with_the_embedding_and_logits_have_the_outputs() -> None:
    model = build_model("language-model", tie_embeddings=False)
    model.decoder.embedding.tokens = torch.nn.Embedding(V + 7, SIZES["dim"])
    engine = pack_module(model, LENGTH)
    ids = np.array([[V + 6, 0]])
    logits, _ = engine.extend(ids, engine.start())
    assert_close(logits, torch_logits(model, ids))
    with pytest.raises(DataError, match=f"token id {V + 7} is not"):
        engine.extend(ids + 1, engine.start())
    model.decoder.embedding.tokens = torch.nn.Embedding(V - 1, SIZES["dim"])
    with pytest.raises(UnsupportedError, match="more outputs than embeddings"):
        pack_module(model, LENGTH)


def test_rows_of_ids_and_state_must_agree() -> None:
    engine, state = started(build_model("encoder-decoder"), rows=3)
    with pytest.raises(ValueError, match="2 rows of ids for a state of 3 rows"):
        engine.extend(np.zeros((2, 1), np.int64), state)
    with pytest.raises(ValueError, match="2 rows of ids for a state of 3 rows"):
        engine.greedy(np.zeros(2, np.int64), state, 3, [4, 4])


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_weight_that_is_not_finite_is_refused_by_name(kind: str, number: float) -> None:
    model = build_model(kind)
    name = "decoder.blocks.1.feed_forward.up_proj.weight"
    model.get_parameter(name).data[3, 5] = number
    with pytest.raises(RunError, match=f"weights are damaged: {name} contains"):
        started(model, rows=1)


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("threads", [1, 3])
def test_logits_that_are_not_finite_are_an_error(bits: int, threads: int) -> None:
    """Finite weights can be too large: ∞ − ∞ before the ReLU is NaN, which it must not hide."""
    model = build_model("language-model")
    model.decoder.blocks[0].feed_forward.up_proj.weight.data.fill_(3e38)
    engine = pack_module(model, LENGTH, bits)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with pytest.raises(RunError, match="logits that are not finite"):
            engine.extend(random_ids(2, 5), engine.start())
        with pytest.raises(RunError, match="logits that are not finite"):
            engine.greedy(random_ids(2), engine.start(), 3, [4, 4])
    finally:
        torch.set_num_threads(before)


def test_source_without_tokens_gives_zeros_as_in_torch() -> None:
    model = build_model("encoder-decoder")
    engine = pack_module(model, LENGTH)
    source, target = random_ids(2, 4), random_ids(2, 3)
    source_mask = np.array([[True, True, False, False], [False] * 4])
    logits, _ = engine.extend(target, engine.start(source, source_mask))
    assert_close(logits, torch_logits(model, source, source_mask, target))


@st.composite
def prunings(draw: st.DrawFn, heads: int, kv_heads: int) -> list[int]:
    """Retained heads of an attention: the same number of each group that remains."""
    group = heads // kv_heads
    groups = draw(st.sets(st.integers(0, kv_heads - 1), min_size=1))
    size = draw(st.integers(1, group))
    return [
        index * group + head
        for index in sorted(groups)
        for head in sorted(draw(st.sets(st.integers(0, group - 1), min_size=size, max_size=size)))
    ]


ATTENTIONS = {
    "language-model": ["decoder.blocks.0.attention", "decoder.blocks.1.attention"],
    "encoder-decoder": [
        f"{stack}.blocks.{layer}.{name}"
        for stack, names in (("encoder", ["attention"]), ("decoder", ["attention", "cross"]))
        for layer in range(2)
        for name in names
    ],
}


@given(st.data())
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_pruned_models_with_grouped_keys_equal_masked_ones(kind: str, data: st.DataObject) -> None:
    """The engine with the pruned model computes what torch does with the removed heads masked."""
    kv_heads = data.draw(st.sampled_from([1, 2, 4]))
    position = data.draw(st.sampled_from(["rotary", "alibi", "sinusoidal"]))
    retained = {
        name: data.draw(prunings(SIZES["heads"], kv_heads))
        for name in ATTENTIONS[kind]
        if data.draw(st.booleans())
    }
    masked = shared_model(kind, kv_heads, position)
    pruned = deepcopy(masked)
    retain_heads(pruned, retained)
    for name, heads in retained.items():
        columns = masked.get_submodule(name).w_o.weight.data.view(SIZES["dim"], SIZES["heads"], -1)
        columns[:, [head for head in range(SIZES["heads"]) if head not in heads]] = 0
    target = random_ids(2, 4)
    engine, state = started(pruned, rows=2)
    if kind == "language-model":
        expected = torch_logits(masked, target)
    else:
        source, mask = random_ids(2, 5), np.arange(5) < np.array([[5], [3]])
        state, expected = engine.start(source, mask), torch_logits(masked, source, mask, target)
    first, state = engine.extend(target[:, :3], state)
    last, _ = engine.step(target[:, 3], state)
    assert_close(first, expected[:, :3])
    assert_close(last, expected[:, 3])


@cache
def built_once(kind: str, kv_heads: int, position: str) -> torch.nn.Module:
    return build_model(kind, kv_heads=kv_heads, position=position)


def shared_model(kind: str, kv_heads: int, position: str) -> torch.nn.Module:
    """Return a copy of a model, which takes less time than building it for every example."""
    return deepcopy(built_once(kind, kv_heads, position))


@pytest.mark.parametrize("kind", ["language-model", "encoder-decoder"])
def test_weights_of_4_bits_give_nearly_the_logits_of_torch(kind: str) -> None:
    torch.manual_seed(1)
    model = build_model(kind)
    exact, rounded = (pack_module(model, LENGTH, bits) for bits in (32, 4))
    ids = random_ids(3, 6)
    mask = np.ones((3, 6), bool)
    logits = [
        engine.extend(ids, engine.start(ids, mask) if kind == "encoder-decoder" else engine.start())
        for engine in (exact, rounded)
    ]
    (expected, _), (actual, _) = logits
    assert 0 < np.linalg.norm(actual - expected) < 0.2 * np.linalg.norm(expected)
