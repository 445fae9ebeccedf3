"""The least important go first, one of each attention stays, a planted twin goes for nothing."""

from copy import deepcopy

import pytest

from regard.insight.heads.ablation import remove
from regard.insight.heads.head_masks import without
from regard.insight.heads.head_names import attention, attentions, heads_of
from regard.insight.heads.losses import losses

from .conftest import _learned, plant_twins


@pytest.fixture(scope="module")
def removal():
    model, examples, _ = _learned()
    return remove(model, examples)


def test_all_but_one_of_each_attention_go(learned, removal) -> None:
    assert removal.heads == 24
    assert removal.steps[-1].removed == 24 - len(attentions(learned.model))
    gone = {head for unit in removal.order for head in unit}
    assert len(gone) == removal.steps[-1].removed
    left = [head.module for head in heads_of(learned.model) if head not in gone]
    assert len(set(left)) == len(left) == 6


def test_the_numbers_are_those_of_the_masked_model(learned, removal) -> None:
    _, judging = learned.examples.halves(128)
    assert removal.rows == len(judging.rows)
    gone = {head for unit in removal.order[:5] for head in unit}
    again = losses(learned.model, judging, without(learned.model, gone))
    assert removal.steps[5].loss == pytest.approx(again.mean)
    for step in removal.steps:
        assert step.band[0] <= step.loss <= step.band[1]
    assert removal.steps[0].rise == (0, 0)


def test_few_go_for_little_and_the_last_cost_much(removal) -> None:
    half = removal.steps[len(removal.steps) // 2]
    assert half.loss - removal.steps[0].loss < 0.5 * (
        removal.steps[-1].loss - removal.steps[0].loss
    )


def test_the_knee_is_one_sentence(removal) -> None:
    last = removal.within(5.0)
    assert last.loss <= removal.steps[0].loss * 1.05
    assert removal.knee(5.0).startswith(f"{last.removed} of 24 heads can go for 5 % of the loss (")
    assert removal.within(1e9).removed == 18
    assert removal.within(0.0).removed >= 0


def test_a_planted_twin_goes_first_and_for_nothing(learned) -> None:
    model = deepcopy(learned.model)
    plant_twins(attention(model, "decoder.blocks.1.cross"), 0, 1)
    found = remove(model, learned.examples, most=1)
    assert str(found.order[0][0]) in ("cross.2.1", "cross.2.2")
    assert found.steps[1].loss == found.steps[0].loss
    assert found.steps[1].rise == (0, 0)


def test_groups_go_together(make) -> None:
    home = make("language-model", kv_heads=2, position="rotary")
    found = remove(home.loaded.model, home.examples)
    assert {len(unit) for unit in found.order} == {2}
    assert found.steps[-1].removed == 4


def test_bleu_at_each_step(make) -> None:
    home = make("encoder-decoder")
    found = remove(home.loaded.model, home.examples, home.loaded, most=2)
    assert len(found.steps) == 3
    assert all(step.bleu is not None and step.bleu_margin is not None for step in found.steps)
    assert "0.5 BLEU" in found.knee()
