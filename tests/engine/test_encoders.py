"""Encoders in the engine against torch: states, pooled vectors, logits and batches."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.engine.test_steppers import (
    LENGTH,
    SIZES,
    VARIANTS,
    V,
    assert_close,
    build_model,
    prunings,
)

from regard.data.batches.base import pad
from regard.engine import encoders
from regard.engine.encoders import FastEncoder
from regard.engine.library import library
from regard.engine.plan import UnsupportedError
from regard.engine.select import pack_module
from regard.errors import DataError, RunError
from regard.models.prune import retain_heads

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")

ENCODERS = {name: variant for name, variant in VARIANTS.items() if "output_bias" not in variant}
MASKED = {
    **VARIANTS,
    "no output bias": {"output_bias": False},
    "output of its own": {"tie_embeddings": False},
    **{f"transform: {g}": {"transform": g} for g in ("relu", "gelu", "gelu-tanh", "silu")},
    "as BERT": {
        "transform": "gelu",
        "norm_first": False,
        "position": "learned",
        "embedding_norm": True,
        "scale_embedding": False,
        "feed_forward": {"kind": "dense", "activation": "gelu"},
    },
    "transform with rms": {"transform": "sigmoid", "norm": {"kind": "rms", "gain": False}},
}
POOLINGS = ("mean", "first", "max", "attention")
COUNTS = (9, 1, 6, 12)  # tokens of the rows


def random_rows(counts: tuple[int, ...] = COUNTS) -> list[list[int]]:
    return [torch.randint(V, (count,)).tolist() for count in counts]


def torch_outputs(model: torch.nn.Module, rows: list[list[int]]) -> NDArray:
    """Return what the module computes for padded rows."""
    with torch.inference_mode():
        return model(*pad(rows, 0)).numpy()


@pytest.mark.parametrize("variant", ENCODERS.values(), ids=ENCODERS.keys())
def test_vectors_equal_torch(variant: dict[str, object]) -> None:
    model, rows = build_model("encoder", **variant), random_rows()
    engine, states = pack_module(model, LENGTH), torch_outputs(model, rows)
    own = [of_row[: len(row)] for of_row, row in zip(states, rows, strict=True)]
    assert_close(engine.vectors(rows, "mean"), np.stack([each.mean(0) for each in own]))
    assert_close(engine.vectors(rows, "first"), states[:, 0])
    assert_close(engine.vectors(rows, "max"), np.stack([each.max(0) for each in own]))


@pytest.mark.parametrize("variant", MASKED.values(), ids=MASKED.keys())
def test_token_logits_equal_torch(variant: dict[str, object]) -> None:
    model, rows = build_model("masked-lm", **variant), random_rows()
    engine, expected = pack_module(model, LENGTH), torch_outputs(model, rows)
    positions = [[8, 0, 3], [], [2], [11]]
    flat = [(row, position) for row, own in enumerate(positions) for position in own]
    logits = engine.token_logits(rows, positions)
    assert_close(logits, np.stack([expected[at] for at in flat]))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("variant", ENCODERS.values(), ids=ENCODERS.keys())
def test_class_logits_equal_torch(variant: dict[str, object], pooling: str) -> None:
    model, rows = build_model("classifier", pooling=pooling, classes=3, **variant), random_rows()
    assert_close(pack_module(model, LENGTH).class_logits(rows), torch_outputs(model, rows))


@pytest.mark.parametrize("kind", ["masked-lm", "classifier"])
def test_int8_is_close_to_float32(kind: str) -> None:
    model, rows = build_model(kind), random_rows()
    exact, rounded = (outputs(pack_module(model, LENGTH, bits), rows) for bits in (32, 8))
    assert not (exact == rounded).all()
    assert np.abs(exact - rounded).max() < 0.1 * np.abs(exact).max()


def outputs(engine: FastEncoder, rows: list[list[int]]) -> NDArray:
    """Return the outputs of each row (rows, …): logits, or the logits of its first token."""
    if engine._pooling is not None:
        return engine.class_logits(rows)
    if engine._output is not None:
        return engine.token_logits(rows, [[0]] * len(rows))
    return engine.vectors(rows, "mean")


@cache
def shared_engine(kind: str, bits: int, pooling: str) -> FastEncoder:
    """Build one engine for all examples of a property test."""
    more = {"masked-lm": {"transform": "gelu"}, "classifier": {"pooling": pooling}}.get(kind, {})
    return pack_module(build_model(kind, position="alibi", **more), LENGTH, bits)


@given(st.lists(st.integers(0, 11), min_size=1, max_size=12), st.sampled_from([20, 4096]))
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("bits", [32, 8, 4])
@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("encoder", ""), ("masked-lm", ""), *(("classifier", pooling) for pooling in POOLINGS)],
)
def test_outputs_do_not_depend_on_the_batch(
    kind: str, pooling: str, bits: int, chosen: list[int], max_tokens: int
) -> None:
    engine = shared_engine(kind, bits, pooling)
    generator = torch.Generator().manual_seed(5)
    counts = torch.randint(1, 14, (12,), generator=generator).tolist()
    rows = [torch.randint(V, (count,), generator=generator).tolist() for count in counts]
    alone = {row: outputs(engine, [rows[row]])[0] for row in set(chosen)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "MAX_TOKENS", max_tokens)
        together = outputs(engine, [rows[row] for row in chosen])
    assert (together == np.stack([alone[row] for row in chosen])).all()


@pytest.mark.parametrize("kind", ["encoder", "masked-lm", "classifier"])
def test_outputs_do_not_depend_on_threads(kind: str) -> None:
    engine, rows = shared_engine(kind, 32, "attention"), random_rows()
    expected, before = outputs(engine, rows), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert (outputs(engine, rows) == expected).all()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["encoder", "masked-lm", "classifier"])
def test_no_rows_give_no_outputs(kind: str) -> None:
    engine = shared_engine(kind, 32, "mean")
    assert outputs(engine, []).shape[0] == 0


@pytest.mark.parametrize("kind", ["encoder", "masked-lm", "classifier"])
@pytest.mark.parametrize("outside", [-1, V, 2**31 + 1, -(2**40)])
def test_ids_outside_the_vocabulary_are_refused(kind: str, outside: int) -> None:
    engine = shared_engine(kind, 32, "mean")
    with pytest.raises(DataError, match=f"token id {outside} is not in this model's vocabulary"):
        outputs(engine, [[1, 2], [3, outside, 4]])
    with pytest.raises(DataError, match=f"this model takes {LENGTH} tokens and was given more"):
        outputs(engine, [[1], [1] * (LENGTH + 1)])


@pytest.mark.parametrize("kind", ["encoder", "masked-lm", "classifier"])
def test_results_that_are_not_finite_are_an_error(kind: str) -> None:
    """Finite weights can be too large: ∞ − ∞ before the ReLU is NaN, which it must not hide."""
    model = build_model(kind)
    encoder = model if kind == "encoder" else model.encoder
    encoder.blocks[0].feed_forward.up_proj.weight.data.fill_(3e38)
    noun = "states" if kind == "encoder" else "logits"
    with pytest.raises(RunError, match=f"{noun} that are not finite"):
        outputs(pack_module(model, LENGTH), random_rows())


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weight_that_is_not_finite_is_refused_by_name(number: float) -> None:
    model = build_model("classifier", pooling="attention")
    model.pool.query.data[3] = number
    with pytest.raises(RunError, match=r"weights are damaged: pool\.query contains"):
        pack_module(model, LENGTH)


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        ("encoder", {"position": "relative"}),
        ("masked-lm", {"feed_forward": "moe"}),
        ("masked-lm", {"transform": "squared-relu"}),
        ("classifier", {"attention": {"kind": "window", "size": 4}}),
        ("recurrent", {}),
    ],
)
def test_unsupported_models_are_refused(kind: str, variant: dict[str, object]) -> None:
    if kind == "recurrent":
        from regard.models.base import ModelSpec

        spec = ModelSpec.model_validate({"kind": kind, "dim": 8})
        model = spec.for_capability("sequence-classification").build(V)
    else:
        model = build_model(kind, **variant)
    with pytest.raises(UnsupportedError):
        pack_module(model, LENGTH)


@given(st.data())
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("kind", ["encoder", "masked-lm", "classifier"])
def test_pruned_encoders_equal_masked_ones(kind: str, data: st.DataObject) -> None:
    """The engine with the pruned model computes what torch does with the removed heads masked."""
    kv_heads = data.draw(st.sampled_from([1, 2, 4]))
    position = data.draw(st.sampled_from(["rotary", "alibi", "learned"]))
    prefix = "" if kind == "encoder" else "encoder."
    retained = {
        f"{prefix}blocks.{layer}.attention": data.draw(prunings(SIZES["heads"], kv_heads))
        for layer in range(2)
        if data.draw(st.booleans())
    }
    masked = deepcopy(built_once(kind, kv_heads, position))
    pruned = deepcopy(masked)
    retain_heads(pruned, retained)
    for name, heads in retained.items():
        columns = masked.get_submodule(name).w_o.weight.data.view(SIZES["dim"], SIZES["heads"], -1)
        columns[:, [head for head in range(SIZES["heads"]) if head not in heads]] = 0
    rows = random_rows()
    assert_close(outputs(pack_module(pruned, LENGTH), rows), torch_first(kind, masked, rows))


def torch_first(kind: str, model: torch.nn.Module, rows: list[list[int]]) -> NDArray:
    """Return what `outputs` computes, with torch."""
    expected = torch_outputs(model, rows)
    if kind == "classifier":
        return expected
    if kind == "masked-lm":
        return expected[:, 0]
    return np.stack([own[: len(row)].mean(0) for own, row in zip(expected, rows, strict=True)])


@cache
def built_once(kind: str, kv_heads: int, position: str) -> torch.nn.Module:
    return build_model(kind, kv_heads=kv_heads, position=position)
