"""Gates scale heads, leave nothing behind, and twins speak for each other."""

import pytest
import torch

from regard.engine.select import Decodable
from regard.errors import ConfigError
from regard.insight.heads.head_masks import gated, silenced, twins, without
from regard.insight.heads.head_names import attention, find_head

from .conftest import built, plant_twins

NAME = "decoder.blocks.1.attention"
IDS = torch.randint(4, 300, (2, 9), generator=torch.Generator().manual_seed(0))


def test_a_gate_of_one_changes_nothing_and_of_zero_is_w_o_without_those_columns() -> None:
    model = built("language-model")
    with torch.no_grad():
        before = model(IDS)
        with gated(model, {NAME: torch.ones(4)}):
            assert torch.allclose(model(IDS), before, atol=1e-6)
        gate = torch.tensor([1.0, 0.0, 1.0, 1.0])
        with gated(model, {NAME: gate}):
            masked = model(IDS)
        assert not torch.allclose(masked, before, atol=1e-3)
        assert torch.equal(model(IDS), before)
        assert torch.allclose(silenced(model, {NAME: gate})(IDS), masked, atol=1e-5)
        by_hand = attention(model, NAME).w_o.weight
        by_hand[:, 8:16] = 0
        assert torch.allclose(model(IDS), masked, atol=1e-5)


def test_each_row_may_have_its_own_gates() -> None:
    model = built("language-model")
    gates = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    with torch.no_grad():
        before = model(IDS)
        with gated(model, {NAME: gates}):
            after = model(IDS)
    assert torch.allclose(after[0], before[0], atol=1e-6)
    assert not torch.allclose(after[1], before[1], atol=1e-3)


def test_nothing_is_left_behind_and_the_engine_steps_aside() -> None:
    model = built("language-model")
    decodable = Decodable(model, 48)
    with gated(model, {NAME: torch.ones(4)}):
        assert decodable.now is model
    with pytest.raises(ZeroDivisionError), gated(model, {NAME: torch.ones(4)}):
        raise ZeroDivisionError
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_gates_that_do_not_fit_are_refused() -> None:
    model = built("language-model")
    with (
        pytest.raises(ConfigError, match="no attention 'nowhere'"),
        gated(model, {"nowhere": torch.ones(4)}),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="has 4 heads and was given 3 gates"),
        gated(model, {NAME: torch.ones(3)}),
    ):
        pass


def test_a_head_goes_for_nothing_only_while_its_twin_is_left() -> None:
    model = built("language-model")
    plant_twins(attention(model, NAME), 0, 2)
    assert twins(attention(model, NAME)) == [0, 1, 0, 3]
    one, other, third = (find_head(model, f"decoder.2.{number}") for number in (1, 3, 4))
    assert without(model, {one})[NAME].tolist() == [1, 1, 1, 1]
    assert without(model, {one, other})[NAME].tolist() == [0, 1, 0, 1]
    assert without(model, {one, third})[NAME].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("position", ["alibi", "distance"])
def test_heads_at_different_distances_are_no_twins(position: str) -> None:
    model = built("language-model", position=position)
    plant_twins(attention(model, NAME), 0, 2)
    assert twins(attention(model, NAME)) == [0, 1, 2, 3]
