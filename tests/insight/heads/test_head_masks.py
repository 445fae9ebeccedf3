"""Head masks scale outputs, hooks are removed, and duplicates replace each other."""

import pytest
import torch

from regard.engine.select import EngineModel
from regard.errors import ConfigError
from regard.insight.heads.head_masks import copy_with_head_masks, duplicates, masked_heads, without
from regard.insight.heads.head_names import attention, find_head

from .conftest import built, make_duplicates

NAME = "decoder.blocks.1.attention"
IDS = torch.randint(4, 300, (2, 9), generator=torch.Generator().manual_seed(0))


def test_mask_of_one_changes_nothing_and_zero_removes_columns_of_w_o() -> None:
    model = built("language-model")
    with torch.no_grad():
        before = model(IDS)
        with masked_heads(model, {NAME: torch.ones(4)}):
            assert torch.allclose(model(IDS), before, atol=1e-6)
        head_mask = torch.tensor([1.0, 0.0, 1.0, 1.0])
        with masked_heads(model, {NAME: head_mask}):
            masked = model(IDS)
        assert not torch.allclose(masked, before, atol=1e-3)
        assert torch.equal(model(IDS), before)
        assert torch.allclose(
            copy_with_head_masks(model, {NAME: head_mask})(IDS), masked, atol=1e-5
        )
        by_hand = attention(model, NAME).w_o.weight
        by_hand[:, 8:16] = 0
        assert torch.allclose(model(IDS), masked, atol=1e-5)


def test_masks_by_row() -> None:
    model = built("language-model")
    head_masks = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    with torch.no_grad():
        before = model(IDS)
        with masked_heads(model, {NAME: head_masks}):
            after = model(IDS)
    assert torch.allclose(after[0], before[0], atol=1e-6)
    assert not torch.allclose(after[1], before[1], atol=1e-3)


def test_hooks_are_removed_and_the_engine_is_not_used_with_masks() -> None:
    model = built("language-model")
    engine_model = EngineModel(model, 48)
    with masked_heads(model, {NAME: torch.ones(4)}):
        assert not engine_model.uses_engine
    with pytest.raises(ZeroDivisionError), masked_heads(model, {NAME: torch.ones(4)}):
        raise ZeroDivisionError
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_masks_of_wrong_size_are_refused() -> None:
    model = built("language-model")
    with (
        pytest.raises(ConfigError, match="no attention 'nowhere'"),
        masked_heads(model, {"nowhere": torch.ones(4)}),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="has 4 heads and got a mask of 3"),
        masked_heads(model, {NAME: torch.ones(3)}),
    ):
        pass


def test_removing_a_head_is_free_only_while_its_duplicate_remains() -> None:
    model = built("language-model")
    make_duplicates(attention(model, NAME), 0, 2)
    assert duplicates(attention(model, NAME)) == [0, 1, 0, 3]
    one, other, third = (find_head(model, f"decoder.2.{number}") for number in (1, 3, 4))
    assert without(model, {one})[NAME].tolist() == [1, 1, 1, 1]
    assert without(model, {one, other})[NAME].tolist() == [0, 1, 0, 1]
    assert without(model, {one, third})[NAME].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("position", ["alibi", "distance"])
def test_heads_with_different_position_bias_are_not_duplicates(position: str) -> None:
    model = built("language-model", position=position)
    make_duplicates(attention(model, NAME), 0, 2)
    assert duplicates(attention(model, NAME)) == [0, 1, 2, 3]
