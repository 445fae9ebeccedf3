"""Estimated and measured importance of heads."""

from copy import deepcopy

import pytest
import torch

from regard.insight.heads.head_names import attention, find_head, heads_of
from regard.insight.heads.importance import _ranks, agreement, estimated, measured
from regard.insight.heads.losses import losses

from .conftest import make_duplicates


def test_estimated_importance_correlates_with_measured(learned) -> None:
    _, rise = measured(learned.model, learned.examples)
    guess = estimated(learned.model, learned.examples)
    agrees = agreement(rise, guess)
    assert agrees.spearman > 0.5
    assert agrees.pearson > 0.4


def test_estimate_is_the_gradient_of_a_mask(learned) -> None:
    """Of one example, by a small change of one gate."""
    model, one = learned.model, learned.examples.few(1)
    from regard.insight.heads.head_masks import masked_heads

    head = find_head(model, "cross.2.1")
    step = 1e-3
    sides = []
    for change in (step, -step):
        head_mask = torch.ones(4)
        head_mask[head.number] += change
        with masked_heads(model, {head.module: head_mask}):
            sides.append(losses(model, one).mean)
    expected = abs(sides[0] - sides[1]) / (2 * step)
    assert estimated(model, one)[head] == pytest.approx(expected, rel=0.05, abs=1e-4)


def test_duplicate_has_no_importance_until_the_other_is_removed(learned) -> None:
    model = deepcopy(learned.model)
    make_duplicates(attention(model, "decoder.blocks.0.cross"), 0, 1)
    whole, rise = measured(model, learned.examples)
    one, other = (find_head(model, f"cross.1.{number}") for number in (1, 2))
    assert rise[one] == rise[other] == 0
    assert whole > 0
    assert estimated(model, learned.examples)[one] == 0
    left = estimated(model, learned.examples, {one})
    assert left[other] > 0
    assert one not in left


def test_equal_values_share_their_mean_rank(learned) -> None:
    import numpy as np

    assert _ranks(np.array([3.0, 1.0, 3.0, 9.0])).tolist() == [2.5, 1, 2.5, 4]
    heads = heads_of(learned.model)[:4]
    up = {head: float(index) for index, head in enumerate(heads)}
    cubed = {head: value**3 for head, value in up.items()}
    assert agreement(up, cubed).spearman == pytest.approx(1)
    assert agreement(up, cubed).pearson < 1
