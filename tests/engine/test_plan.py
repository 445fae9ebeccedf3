"""Plans from settings equal those of the modules; tables equal torch's; the rest is refused."""

import json

import numpy as np
import pytest
import torch
from tests.engine.test_steppers import SIZES, VARIANTS, V

from regard.config import plain, validate
from regard.engine import tables
from regard.engine.plan import (
    DistanceBias,
    RotaryScaling,
    Rotation,
    Sinusoids,
    Slopes,
    UnsupportedError,
)
from regard.engine.plan_of_module import plan_of_module
from regard.engine.plan_of_settings import check_shapes, plan_of_settings
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.weights import weights_of
from regard.positions import alibi, distance, rotary, sinusoidal

POOLINGS = ("mean", "first", "max", "attention")
GATES = ("sigmoid", "gelu", "silu")
COMMON = {
    **VARIANTS,
    **{f"gated by {g}": {"feed_forward": {"kind": "gated", "activation": g}} for g in GATES},
    "gated with bias": {"feed_forward": {"kind": "gated", "bias": True}},
    "dense without bias": {"feed_forward": {"kind": "dense", "bias": False}},
    "norms without bias": {"norm": {"kind": "layer", "bias": False}, "embedding_norm": True},
    "norms without gain": {"norm": {"kind": "rms", "gain": False, "eps": 1e-3}},
    "sinusoids in halves": {"position": {"kind": "sinusoidal", "base": 500, "layout": "halves"}},
    "scaled rotary": {"position": {"kind": "rotary", "scaling": {"factor": 8, "context": 16}}},
    "reference attention": {"attention": "reference"},
    "one key head": {"kv_heads": 1},
}
ENCODERS = {
    **{name: variant for name, variant in COMMON.items() if "output_bias" not in variant},
    "pruned": {"retained_heads": {"{}blocks.1.attention": [0, 3]}, "position": "alibi"},
}


def of_encoder(prefix: str) -> dict[str, dict]:
    """Return the settings of encoders, whose blocks have names with a prefix."""
    content = json.dumps(ENCODERS).replace("{}blocks", f"{prefix}blocks")
    return json.loads(content)


KINDS = {
    "language-model": {
        **COMMON,
        "output of its own": {"tie_embeddings": False, "output_bias": True},
        "pruned": {"retained_heads": {"decoder.blocks.1.attention": [0, 3]}, "position": "alibi"},
        "pruned groups": {"retained_heads": {"decoder.blocks.0.attention": [2]}, "kv_heads": 2},
    },
    "encoder-decoder": {
        **COMMON,
        **{f"tied: {tie}": {"tie_embeddings": tie} for tie in ("embeddings", "output", "none")},
        "fewer decoder layers": {"decoder_layers": 1},
        "other attention": {"encoder_attention": "reference", "cross_attention": "reference"},
        "pruned": {
            "retained_heads": {"encoder.blocks.0.attention": [1, 2], "decoder.blocks.1.cross": [3]},
            "position": {"kind": "distance", "clip": 3},
        },
    },
    "encoder": of_encoder(""),
    "masked-lm": {
        **of_encoder("encoder."),
        "no output bias": {"output_bias": False},
        "output of its own": {"tie_embeddings": False},
        "transform": {"transform": "gelu"},
        "transform, norms without bias": {
            "transform": "gelu-tanh",
            "norm": {"kind": "layer", "bias": False},
        },
    },
    "classifier": {
        **of_encoder("encoder."),
        **{f"{pooling} of five": {"pooling": pooling, "classes": 5} for pooling in POOLINGS},
    },
}
CASES = [(kind, name) for kind, variants in KINDS.items() for name in variants]


def settings(kind: str, **given: object) -> dict[str, object]:
    """Return the settings of a model as model.json has them."""
    spec = validate(ModelSpec, {"kind": kind, **SIZES, **given}, "test")
    return json.loads(json.dumps(plain(spec)))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_plan_of_settings_is_that_of_the_module(kind: str, name: str) -> None:
    content = settings(kind, **KINDS[kind][name])
    model = ModelSpec.model_validate(content).build(V)
    plan, weights = plan_of_module(model)
    assert plan_of_settings(content, V) == plan
    stored = {key: tuple(tensor.shape) for key, tensor in weights_of(model).items()}
    assert plan.shapes() == stored == {key: array.shape for key, array in weights.items()}
    check_shapes(plan, stored)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "given",
    [
        {"position": "relative"},
        {"feed_forward": "moe"},
        {"feed_forward": {"kind": "dense", "activation": "squared-relu"}},
        {"attention": {"kind": "window", "size": 4}},
    ],
)
def test_layers_without_a_place_in_the_engine_are_refused(kind: str, given: dict) -> None:
    content = settings(kind, **given)
    with pytest.raises(UnsupportedError):
        plan_of_settings(content, V)
    with pytest.raises((UnsupportedError, ConfigError)):
        plan_of_module(ModelSpec.model_validate(content).build(V))


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (kind, key)
        for kind in ("encoder-decoder", "masked-lm", "classifier")
        for key in settings(kind)
        if kind == "encoder-decoder" or key not in settings("encoder-decoder")
    ],
)
@pytest.mark.parametrize("value", [True, -1, 0.5, 10**30, "x", [], {}, {"kind": "x"}, "missing"])
def test_settings_of_another_type_are_refused_or_unused(kind: str, key: str, value: object) -> None:
    """A setting that changes no tensor and no computation, as the dropout, may have any value."""
    content = settings(kind)
    expected = plan_of_settings(content, V)
    if value == "missing":
        del content[key]
    elif type(content[key]) is type(value) is bool or (key, value) == ("retained_heads", {}):
        return
    else:
        content[key] = value
    if key in ("dropout", "size") and value != "missing":
        assert plan_of_settings(content, V) == expected
    else:
        with pytest.raises(UnsupportedError):
            plan_of_settings(content, V)


@pytest.mark.parametrize(
    "section",
    [
        {"norm": {"kind": "layer", "gain": True, "bias": True, "eps": 0}},
        {"norm": {"kind": "layer", "gain": True, "bias": True, "eps": 1e-5, "new": 1}},
        {"position": {"kind": "rotary", "base": 1e4, "pairs": "thirds", "scaling": None}},
        {"position": {"kind": "rotary", "base": 1e4, "pairs": "halves", "scaling": {"factor": 2}}},
        {"position": {"kind": "distance", "clip": 0}},
        {"attention": {"kind": "fused", "new": 1}},
        {"retained_heads": {"decoder.blocks.9.attention": [0]}},
        {"retained_heads": {"decoder.blocks.0.attention": [4]}},
        {"retained_heads": {"decoder.blocks.0.attention": [1, 0]}},
        {"retained_heads": {"decoder.blocks.0.attention": []}},
        {"retained_heads": {"decoder.blocks.0.attention": [0, 1, 2]}, "kv_heads": 2},
        {"kv_heads": 3},
        {"heads": 5},
    ],
    ids=str,
)
def test_sections_that_are_not_known_are_refused(section: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError):
        plan_of_settings({**settings("language-model"), **section}, V)


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        ("masked-lm", {"transform": "squared-relu"}),
        ("masked-lm", {"transform": {"kind": "gelu"}}),
        ("masked-lm", {"pooling": {"kind": "mean"}}),
        ("classifier", {"pooling": "mean"}),
        ("classifier", {"pooling": {"kind": "last"}}),
        ("classifier", {"pooling": {"kind": "mean", "new": 1}}),
        ("classifier", {"classes": 0}),
        ("classifier", {"classes": True}),
        ("classifier", {"retained_heads": {"blocks.0.attention": [0]}}),
        ("encoder", {"tie_embeddings": True}),
        ("encoder", {"kind": "recurrent"}),
        ("encoder", {"kind": ["encoder"]}),
    ],
    ids=str,
)
def test_sections_of_encoders_that_are_not_known_are_refused(
    kind: str, section: dict[str, object]
) -> None:
    with pytest.raises(UnsupportedError):
        plan_of_settings({**settings(kind), **section}, V)


def test_tensors_must_be_exactly_those_of_the_plan() -> None:
    content = settings("language-model")
    plan = plan_of_settings(content, V)
    stored = plan.shapes()
    for name in ("decoder.embedding.tokens.weight", "decoder.norm.gain"):
        wrong = [{**stored, name: (*stored[name], 1)}, {**stored, "more": (1,)}, dict(stored)]
        del wrong[-1][name]
        for tensors in wrong:
            with pytest.raises(UnsupportedError, match="tensors of other names or shapes"):
                check_shapes(plan, tensors)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("dim", [8, 7])
def test_sinusoids_equal_torch(layout: str, dim: int) -> None:
    table = tables.sinusoids(Sinusoids(1000.0, layout), 300, dim)
    expected = sinusoidal.sinusoids(torch.arange(300), dim, 1000.0, layout)
    np.testing.assert_allclose(table, expected.numpy(), atol=1e-7)


@pytest.mark.parametrize("scaling", [None, (4.0, None, 1.0, 4.0), (8.0, 32, 1.0, 4.0)])
def test_rotations_equal_torch(scaling: tuple | None) -> None:
    """Rotating (1, 0) by an angle gives its cosine and its sine."""
    ones = torch.zeros(1, 1, 300, 16)
    ones[..., :8] = 1
    keys = ("factor", "context", "low", "high")
    given = None if scaling is None else rotary.Scaling(**dict(zip(keys, scaling, strict=True)))
    rotated = rotary.Rotary(16, 1e4, "halves", given).rotate(ones, torch.arange(300))[0, 0]
    planned = None if scaling is None else RotaryScaling(*scaling)
    cosines, sines = tables.rotations(Rotation(1e4, "halves", planned), 300, 16)
    np.testing.assert_allclose(np.concatenate([cosines, sines], 1), rotated.numpy(), atol=2e-5)


def test_biases_of_distances_equal_torch() -> None:
    positions, zero = torch.arange(-9, 10), torch.zeros(1, dtype=torch.long)
    slopes, table = alibi.Alibi(6), distance.Distance(3, 4)
    expected = slopes.bias(torch.zeros(1), zero, positions)[:, 0]
    actual = tables.slope_bias(Slopes(tuple(alibi.slopes(6))), 10)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-7)
    weights = table.table.detach()
    expected = table.bias(torch.zeros(1), zero, positions)[:, 0]
    actual = tables.distance_bias(DistanceBias("table", 3, 4), weights.numpy(), 10)
    assert (actual == expected.detach().numpy()).all()
