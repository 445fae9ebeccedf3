"""Recording of activations: outputs do not change, and hooks are removed."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.config import kinds
from regard.errors import ConfigError, DataError, RegardError
from regard.insight.seen import Seen
from regard.insight.watch import POINTS, watch
from regard.models.base import ModelSpec
from regard.positions.base import PositionSpec

POSITIONS = [k for k in kinds("regard.positions") if not PositionSpec.model_validate(k).needs_trees]
SMALL = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0}
SOURCE = torch.randint(0, 20, (2, 6), generator=torch.Generator().manual_seed(0))
REAL = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
INPUTS = {
    "encoder": (SOURCE, REAL),
    "classifier": (SOURCE, REAL),
    "masked-lm": (SOURCE, REAL),
    "language-model": (SOURCE,),
    "encoder-decoder": (SOURCE, REAL, SOURCE[:, :5]),
    "decoder-only": (SOURCE, REAL, SOURCE[:, :5]),
}
# Capabilities that a kind of model needs of its attention, beside padding.
NEEDS = {
    "language-model": {"causal", "cache"},
    "encoder-decoder": {"causal", "cache", "cross", "padding"},
    "decoder-only": {"causal", "cache"},
}
# Baselines by task: their inputs and their number of attentions.
FAMILIES = {
    ("self-attention-only", "causal-lm"): ((SOURCE,), 2),
    ("self-attention-only", "sequence-classification"): ((SOURCE, REAL), 2),
    ("recurrent", "seq2seq"): ((SOURCE, REAL, SOURCE[:, :5]), 1),
    ("recurrent", "causal-lm"): ((SOURCE,), 0),
    ("recurrent", "sequence-classification"): ((SOURCE, REAL), 0),
    ("convolutional", "causal-lm"): ((SOURCE,), 0),
    ("convolutional", "sequence-classification"): ((SOURCE, REAL), 0),
}


def test_every_kind_of_model_is_tested() -> None:
    watched = {*INPUTS, *(kind for kind, _ in FAMILIES)}
    assert watched == set(kinds("regard.models"))


@pytest.mark.parametrize(("kind", "capability"), FAMILIES)
def test_outputs_of_baselines_are_the_same_when_recorded(kind: str, capability: str) -> None:
    given = {"kind": kind, "capability": capability, "dim": 32, "layers": 2, "dropout": 0.0}
    model = ModelSpec.model_validate(given).build(20).eval()
    inputs, attentions = FAMILIES[kind, capability]
    with torch.no_grad():
        before = model(*inputs)
        with watch(model) as seen:
            watched = model(*inputs)
        after = model(*inputs)
    assert torch.allclose(before, watched, atol=1e-5)
    assert torch.equal(before, after)
    assert len(seen.names()) == attentions


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("attention", kinds("regard.attention"))
@pytest.mark.parametrize("position", POSITIONS)
def test_outputs_are_the_same_when_recorded(kind: str, attention: str, position: str) -> None:
    spec = ModelSpec.model_validate(
        {"kind": kind, **SMALL, "attention": attention, "position": position}
    )
    if not spec.attention.supports >= NEEDS.get(kind, {"padding"}) | spec.position.requires:
        with pytest.raises(ConfigError, match=r"^model\.attention\S*: '[\w-]+' cannot"):
            spec.build(20)
        return
    model = spec.build(20).eval()
    with torch.no_grad():
        before = model(*INPUTS[kind])
        with watch(model) as seen:
            watched = model(*INPUTS[kind])
        after = model(*INPUTS[kind])
    assert torch.allclose(before, watched, atol=1e-5)
    assert torch.equal(before, after)
    assert len(seen.names()) == (6 if kind == "encoder-decoder" else 2)
    for name in seen.names():
        weights = seen.weights(name)
        assert weights.shape[:2] == (2, 4)
        assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
        assert len(seen.calls(name)) == 1


def test_points_have_their_shapes() -> None:
    model = ModelSpec.model_validate({"kind": "encoder-decoder", **SMALL}).build(20).eval()
    with watch(model) as seen:
        model(*INPUTS["encoder-decoder"])
    cross = "decoder.blocks.1.cross"
    assert seen.weights(cross).shape == (2, 4, 5, 6)
    assert seen.calls(cross, "queries")[0].shape == (2, 4, 5, 8)
    assert seen.calls(cross, "keys")[0].shape == (2, 4, 6, 8)
    assert seen.calls(cross, "values")[0].shape == (2, 4, 6, 8)
    assert (seen.weights(cross)[1, :, :, 4:] == 0).all()
    assert seen.by_layer("decoder.blocks", "cross").shape == (2, 4, 5, 6)


@pytest.mark.parametrize("position", ["sinusoidal", "relative", "alibi", "rotary", "distance"])
def test_softmax_of_the_scores_is_the_weights(position: str) -> None:
    spec = {"kind": "encoder-decoder", **SMALL, "position": position}
    model = ModelSpec.model_validate(spec).build(20).eval()
    with torch.no_grad(), watch(model, {"scores", "weights"}) as seen:
        model(*INPUTS["encoder-decoder"])
    for name in seen.names():
        assert torch.allclose(seen.last(name, "scores").softmax(-1), seen.weights(name), atol=1e-6)
        assert seen.points(name) == ["weights", "scores"]


@pytest.mark.parametrize("gated", [False, True])
def test_residual_stream_is_the_sum_of_attention_and_feed_forward(gated: bool) -> None:
    feed_forward = {"kind": "gated"} if gated else {"kind": "dense"}
    spec = {"kind": "encoder", **SMALL, "norm_first": True, "feed_forward": feed_forward}
    model = ModelSpec.model_validate(spec).build(20).eval()
    with torch.no_grad(), watch(model) as seen:
        states = model(*INPUTS["encoder"])
        for layer, block in enumerate(model.blocks):
            before = "embedding" if layer == 0 else f"blocks.{layer - 1}"
            attended = seen.last(f"blocks.{layer}.attention", "output")
            inner = seen.last(f"blocks.{layer}.feed_forward", "activations")
            expected = (
                seen.last(before, "residual") + attended + block.feed_forward.down_proj(inner)
            )
            assert torch.allclose(seen.last(f"blocks.{layer}", "residual"), expected, atol=1e-5)
            heads = seen.last(f"blocks.{layer}.attention", "head_outputs")
            joined = block.attention.w_o(heads.transpose(1, 2).flatten(2))
            assert torch.allclose(attended, joined, atol=1e-6)
        assert torch.equal(states, model.norm(seen.last("blocks.1", "residual")))


def test_gate_weights_of_experts_are_recorded() -> None:
    spec = {"kind": "encoder-decoder", **SMALL, "feed_forward": {"kind": "moe", "num_experts": 5}}
    model = ModelSpec.model_validate(spec).build(20).eval()
    unwatched = model(*INPUTS["encoder-decoder"])
    with torch.no_grad(), watch(model) as seen:
        assert torch.allclose(model(*INPUTS["encoder-decoder"]), unwatched, atol=1e-6)
    source, token_mask, target = INPUTS["encoder-decoder"]
    assert len(seen.names("experts")) == 4
    gates = seen.last("encoder.blocks.1.feed_forward", "experts")
    assert gates.shape == (*source.shape, 5)
    assert torch.equal((gates > 0).sum(-1), 2 * token_mask.long())
    assert seen.last("decoder.blocks.0.feed_forward", "experts").shape == (*target.shape, 5)
    routed = int((gates[..., 0] > 0).sum())
    if routed:
        inner = seen.last("encoder.blocks.1.feed_forward.experts.0", "activations")
        assert len(inner) == routed


def test_only_requested_points_are_recorded() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20).eval()
    with watch(model, {"residual"}) as seen:
        model(*INPUTS["encoder"])
    assert seen.names("residual") == ["embedding", "blocks.0", "blocks.1"]
    assert seen.names() == []
    with (
        pytest.raises(ConfigError, match="there is no point 'wights'; there are: weights"),
        watch(model, {"wights"}),
    ):
        pass


def test_records_are_saved_and_loaded(tmp_path: Path) -> None:
    model = ModelSpec.model_validate({"kind": "encoder-decoder", **SMALL}).build(20).eval()
    with watch(model) as seen:
        model(*INPUTS["encoder-decoder"])
        model(*INPUTS["encoder-decoder"])
    seen.save(tmp_path / "seen.safetensors")
    again = Seen.load(tmp_path / "seen.safetensors")
    assert again.names() == seen.names()
    for name in ("decoder.blocks.1.cross", "encoder.blocks.0.attention"):
        assert again.points(name) == seen.points(name)
        for point in seen.points(name):
            for one, other in zip(seen.calls(name, point), again.calls(name, point), strict=True):
                assert torch.equal(one, other)
    (tmp_path / "other").write_bytes(b"no such thing")
    with pytest.raises(DataError, match="other: not a file written by"):
        Seen.load(tmp_path / "other")


def test_numpy_and_table_have_the_same_numbers() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20).eval()
    with watch(model) as seen:
        model(*INPUTS["encoder"])
    arrays = seen.to_numpy()
    weights = arrays["blocks.1.attention weights"]
    assert np.array_equal(weights, seen.weights("blocks.1.attention").detach().numpy())
    table = seen.to_table()
    assert table.num_rows == 2 * weights.size
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    index = {"call": 0, "row": 1, "head": 3, "query": 5, "key": 5}
    assert last == {"name": "blocks.1.attention", **index, "weight": weights[1, 3, 5, 5]}


def test_recorded_weights_are_part_of_the_graph() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20).eval()
    with watch(model) as seen:
        model(*INPUTS["encoder"]).sum().backward()
    weights = seen.weights("blocks.0.attention")
    assert weights.grad_fn is not None


def test_hooks_are_removed_after_an_error() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20)
    with pytest.raises(ZeroDivisionError), watch(model):
        raise ZeroDivisionError
    assert not any(module._forward_hooks for module in model.modules())


def test_error_names_a_module_that_was_not_recorded() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20)
    with watch(model) as seen:
        model(*INPUTS["encoder"])
    with pytest.raises(
        RegardError, match=r"nothing was recorded of 'nowhere'.*blocks\.0\.attention"
    ):
        seen.weights("nowhere")


def test_steps_of_decoding_are_one_tensor_equal_to_that_of_one_call() -> None:
    model = ModelSpec.model_validate({"kind": "language-model", **SMALL}).build(20).eval()
    with torch.no_grad():
        with watch(model) as whole:
            model(SOURCE)
        with watch(model) as steps:
            state = model.extend(SOURCE[:, :3], model.start())[1]  # a prompt, then token by token
            for token in range(3, 6):
                state = model.extend(SOURCE[:, token : token + 1], state)[1]
    for name in whole.names():
        assert len(steps.calls(name)) == 4
        torch.testing.assert_close(
            steps.over_steps(name), whole.weights(name), atol=1e-5, rtol=1e-5
        )
    residual = steps.over_steps("decoder.blocks.1", "residual")
    torch.testing.assert_close(
        residual, whole.last("decoder.blocks.1", "residual"), atol=1e-5, rtol=1e-5
    )
    with pytest.raises(RegardError, match="not of the tokens of a step"):
        steps.over_steps(whole.names()[0], "keys")
    with watch(model) as beams:
        model(SOURCE), model(SOURCE[:1])
    with pytest.raises(RegardError, match="called with 1 and with 2 rows"):
        beams.over_steps(whole.names()[0])


def test_names_of_numpy_arrays_are_module_and_point() -> None:
    model = ModelSpec.model_validate({"kind": "language-model", **SMALL}).build(20).eval()
    with watch(model) as seen:
        model(SOURCE)
    arrays = seen.to_numpy()
    assert set(arrays) == {f"{name} {point}" for point in POINTS for name in seen.names(point)}
    assert arrays["decoder.blocks.0.attention weights"].shape == (2, 4, 6, 6)
