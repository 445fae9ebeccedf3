"""Watching changes nothing, records everything, and leaves nothing behind."""

import pytest
import torch

from regard.config import kinds
from regard.errors import RegardError
from regard.insight.watch import watch
from regard.models.kind import ModelSpec

SMALL = {"dim": 32, "heads": 4, "inner": 64, "layers": 2, "dropout": 0.0}
SOURCE = torch.randint(0, 20, (2, 6), generator=torch.Generator().manual_seed(0))
REAL = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
INPUTS = {
    "encoder": (SOURCE, REAL),
    "classifier": (SOURCE, REAL),
    "language-model": (SOURCE,),
    "encoder-decoder": (SOURCE, REAL, SOURCE[:, :5]),
}


@pytest.mark.parametrize("kind", kinds("regard.models"))
@pytest.mark.parametrize("attention", kinds("regard.attention"))
@pytest.mark.parametrize("position", kinds("regard.positions"))
def test_outputs_are_the_same_watched_and_not(kind: str, attention: str, position: str) -> None:
    spec = ModelSpec.model_validate(
        {"kind": kind, **SMALL, "attention": attention, "position": position}
    )
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


def test_every_point_is_recorded_at_its_shape() -> None:
    model = ModelSpec.model_validate({"kind": "encoder-decoder", **SMALL}).build(20).eval()
    with watch(model) as seen:
        model(*INPUTS["encoder-decoder"])
    cross = "decoder.blocks.1.cross"
    assert seen.weights(cross).shape == (2, 4, 5, 6)
    assert seen.calls(cross, "queries")[0].shape == (2, 4, 5, 8)
    assert seen.calls(cross, "keys")[0].shape == (2, 4, 6, 8)
    assert seen.calls(cross, "values")[0].shape == (2, 4, 6, 8)
    assert (seen.weights(cross)[1, :, :, 4:] == 0).all()
    assert seen.stack("decoder.blocks", "cross").shape == (2, 4, 5, 6)


def test_the_weights_recorded_are_those_the_output_came_from() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20).eval()
    with watch(model) as seen:
        model(*INPUTS["encoder"]).sum().backward()
    weights = seen.weights("blocks.0.attention")
    assert weights.grad_fn is not None


def test_nothing_is_left_behind_even_after_an_error() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20)
    with pytest.raises(ZeroDivisionError), watch(model):
        raise ZeroDivisionError
    assert not any(module._forward_hooks for module in model.modules())


def test_a_name_that_was_not_seen_is_said() -> None:
    model = ModelSpec.model_validate({"kind": "encoder", **SMALL}).build(20)
    with watch(model) as seen:
        model(*INPUTS["encoder"])
    with pytest.raises(RegardError, match=r"nothing was seen of 'nowhere'.*blocks\.0\.attention"):
        seen.weights("nowhere")
