"""Ablation removes the least important heads first and keeps one of each attention."""

from copy import deepcopy

import pytest

from regard.insight.heads.ablation import ablate
from regard.insight.heads.head_masks import without
from regard.insight.heads.head_names import attention, attentions, heads_of
from regard.insight.heads.losses import losses

from .conftest import _learned, make_duplicates


@pytest.fixture(scope="module")
def ablation():
    model, examples, _ = _learned()
    return ablate(model, examples)


def test_one_head_of_each_attention_remains(learned, ablation) -> None:
    assert ablation.heads == 24
    assert ablation.steps[-1].removed == 24 - len(attentions(learned.model))
    gone = {head for unit in ablation.order for head in unit}
    assert len(gone) == ablation.steps[-1].removed
    left = [head.module for head in heads_of(learned.model) if head not in gone]
    assert len(set(left)) == len(left) == 6


def test_losses_are_those_of_the_masked_model(learned, ablation) -> None:
    _, judging = learned.examples.halves(128)
    assert ablation.rows == len(judging.rows)
    gone = {head for unit in ablation.order[:5] for head in unit}
    again = losses(learned.model, judging, without(learned.model, gone))
    assert ablation.steps[5].loss == pytest.approx(again.mean)
    for step in ablation.steps:
        assert step.band[0] <= step.loss <= step.band[1]
    assert ablation.steps[0].rise == (0, 0)


def test_first_removals_cost_less_than_the_last(ablation) -> None:
    half = ablation.steps[len(ablation.steps) // 2]
    assert half.loss - ablation.steps[0].loss < 0.5 * (
        ablation.steps[-1].loss - ablation.steps[0].loss
    )


def test_knee_is_one_sentence(ablation) -> None:
    last = ablation.within(5.0)
    assert last.loss <= ablation.steps[0].loss * 1.05
    assert ablation.knee(5.0).startswith(
        f"{last.removed} of 24 heads can be removed for 5 % of the loss ("
    )
    assert ablation.within(1e9).removed == 18
    assert ablation.within(0.0).removed >= 0


def test_duplicate_head_is_removed_first_at_no_cost(learned) -> None:
    model = deepcopy(learned.model)
    make_duplicates(attention(model, "decoder.blocks.1.cross"), 0, 1)
    ablation = ablate(model, learned.examples, most=1)
    assert str(ablation.order[0][0]) in ("cross.2.1", "cross.2.2")
    assert ablation.steps[1].loss == ablation.steps[0].loss
    assert ablation.steps[1].rise == (0, 0)


def test_heads_with_shared_keys_are_removed_together(make) -> None:
    home = make("language-model", kv_heads=2, position="rotary")
    ablation = ablate(home.loaded.model, home.examples)
    assert {len(unit) for unit in ablation.order} == {2}
    assert ablation.steps[-1].removed == 4


def test_bleu_is_measured_at_each_step(make) -> None:
    home = make("encoder-decoder")
    ablation = ablate(home.loaded.model, home.examples, home.loaded, most=2)
    assert len(ablation.steps) == 3
    assert all(step.bleu is not None and step.bleu_margin is not None for step in ablation.steps)
    assert "0.5 BLEU" in ablation.knee()
