"""Auxiliary losses and counts of experts: in the loss, the metrics, the card and the run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from regard import run_folder
from regard.config import validate
from regard.data.batches.pairs import Example, PairBatch, collate
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.training.config import TrainingSpec
from regard.training.distributed.world import World
from regard.training.learner import Learner
from regard.training.loss import lm_head_loss
from regard.training.reporting import metrics
from regard.training.trainer import train

PAD, START, END, V = 0, 1, 2, 20
SMALL = {
    "kind": "encoder-decoder",
    "dim": 16,
    "heads": 2,
    "ffn_dim": 32,
    "layers": 1,
    "dropout": 0.0,
}
STACKS = 2  # an encoder's block and a decoder's, each with experts


def copying(model: nn.Module, batch: PairBatch) -> Tensor:
    assert isinstance(model, EncoderDecoder)
    words, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1], token_mask)
    return lm_head_loss(model, states, words, token_mask, 0.0)


def learner(training: dict[str, Any] | None = None, **experts: Any) -> Learner:
    """In double precision, so that rounding is out of the way."""
    given = {"steps": 100, "precision": "float32", "max_grad_norm": 1e9, **(training or {})}
    spec = validate(TrainingSpec, given, "recipe")
    torch.manual_seed(spec.seed)
    mixture = {"kind": "moe", "num_experts": 4, "jitter": 0.0, **experts}
    model = validate(ModelSpec, {**SMALL, "feed_forward": mixture}, "recipe").build(V).double()
    return Learner(model, copying, spec, World())


def batch(count: int = 40) -> PairBatch:
    random = torch.Generator().manual_seed(3)
    drawn = []
    for _ in range(count):
        length = int(torch.randint(1, 12, (), generator=random))
        ids = torch.randint(3, V, (length,), generator=random).tolist()
        drawn.append(Example([*ids, END], [START, *ids, END]))
    return collate(drawn, PAD)


def gradients(learner: Learner) -> dict[str, Tensor]:
    named = learner.model.named_parameters()
    return {name: each.grad.clone() for name, each in named if each.grad is not None}


def test_the_balance_is_added_for_each_prediction_and_told_apart_from_the_loss() -> None:
    plain, wishing = learner(balance_loss=0.0), learner(balance_loss=0.5)
    without, beside = (each.update([batch()], 1, 0.0) for each in (plain, wishing))
    assert without.loss == pytest.approx(beside.loss, rel=1e-12)
    assert without.aux_loss == 0.0
    assert 0.5 * STACKS <= beside.aux_loss < 2 * 0.5 * STACKS  # even use would be the least
    routers = [name for name in gradients(plain) if "router" in name]
    assert len(routers) == STACKS
    for name in routers:
        assert not torch.allclose(gradients(plain)[name], gradients(wishing)[name], rtol=1e-2)


def test_words_are_counted_and_padding_is_not() -> None:
    given = batch()
    counts = learner().update([given], 1, 0.0).counts
    words = int(given.source_mask.sum()) + int(given.target_mask[:, 1:].sum())
    assert counts == {"assignments": 2 * words, "dropped": 0}
    assert learner(capacity_factor=0.5).update([given], 1, 0.0).counts["dropped"] > 0


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_lanes_and_accumulation_change_nothing_without_a_wish(
    monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    learners = []
    for enough, pieces in ((10**9, [batch()]), (1, [batch()]), (10**9, halves(batch()))):
        monkeypatch.setattr("regard.training.thread_parallel.TOKENS_PER_WORKER", enough)
        each = learner({"optimizer": optimizer}, balance_loss=0.0)
        told = [each.update(pieces, step, 0.0) for step in (1, 2, 3)]
        learners.append((each, [update.counts for update in told]))
    first, counts = learners[0]
    for other, others in learners[1:]:
        assert counts == others
        for one, two in zip(first.model.parameters(), other.model.parameters(), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)


def halves(whole: PairBatch) -> list[PairBatch]:
    return [whole.shard(rank, 2) for rank in range(2)]


@pytest.mark.usefixtures("four_threads")
def test_lanes_draw_the_same_jitter_and_tell_the_same_every_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("regard.training.thread_parallel.TOKENS_PER_WORKER", 1)
    updates = []
    for _ in range(2):
        each = learner(jitter=0.3, capacity_factor=0.8, balance_loss=0.1)
        updates.append([each.update([batch()], step, 0.0) for step in (1, 2)])
    assert updates[0] == updates[1]
    assert updates[0][0].counts["dropped"] > 0


def test_a_model_without_such_parts_says_nothing(make_learner: Any, toy: Any) -> None:
    update = make_learner().update([toy().batch(1)], 1, 0.0)
    assert (update.aux_loss, update.counts) == (0.0, {})


MIXTURE = "model.feed_forward={kind: moe, num_experts: 4, capacity_factor: 0.7, balance_loss: 0.02}"


def test_a_run_tells_what_overflowed(tiny: Any, tmp_path: Path) -> None:
    train(tiny(MIXTURE, "training.steps=4", "training.evaluation.every=4"), tmp_path / "run")
    steps = [each for each in metrics.read(tmp_path / "run") if "grad_norm" in each]
    assert len(steps) == 4
    for step in steps:
        assert step["assignments"] > step["dropped"] > 0
        assert step["aux_loss"] >= 0.02 * 4  # two blocks in each of two stacks
    assignments, dropped = (
        sum(each[name] for each in steps) for name in ("assignments", "dropped")
    )
    card = (tmp_path / "run/README.md").read_text(encoding="utf-8")
    assert f"assigned to experts {assignments:,} times" in card
    assert f"{dropped:,} times ({dropped / assignments:.2%}) the expert was full" in card
    names = load_file(tmp_path / "run" / run_folder.WEIGHTS).keys()
    assert "encoder.blocks.0.feed_forward.experts.3.down_proj.weight" in names


def test_a_run_without_experts_tells_nothing_of_them(tiny: Any, tmp_path: Path) -> None:
    train(tiny("training.steps=2", "training.evaluation.every=2"), tmp_path / "run")
    text = (tmp_path / "run" / metrics.NAME).read_text()
    assert not {"aux_loss", "assignments", "counts"} & set().union(
        *map(json.loads, text.splitlines())
    )
    assert "experts" not in (tmp_path / "run/README.md").read_text(encoding="utf-8")
