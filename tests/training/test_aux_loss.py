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
STACKS = 2  # a block of the encoder and one of the decoder, with experts each


def copy_loss(model: nn.Module, batch: PairBatch) -> Tensor:
    assert isinstance(model, EncoderDecoder)
    targets, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1], token_mask)
    return lm_head_loss(model, states, targets, token_mask, 0.0)


def learner(training: dict[str, Any] | None = None, **experts: Any) -> Learner:
    """Make a learner in double precision, so that rounding does not matter."""
    settings = {"steps": 100, "precision": "float32", "max_grad_norm": 1e9, **(training or {})}
    spec = validate(TrainingSpec, settings, "recipe")
    torch.manual_seed(spec.seed)
    mixture = {"kind": "moe", "num_experts": 4, "jitter": 0.0, **experts}
    model = validate(ModelSpec, {**SMALL, "feed_forward": mixture}, "recipe").build(V).double()
    return Learner(model, copy_loss, spec, World())


def batch(count: int = 40) -> PairBatch:
    random = torch.Generator().manual_seed(3)
    examples = []
    for _ in range(count):
        length = int(torch.randint(1, 12, (), generator=random))
        ids = torch.randint(3, V, (length,), generator=random).tolist()
        examples.append(Example([*ids, END], [START, *ids, END]))
    return collate(examples, PAD)


def gradients(learner: Learner) -> dict[str, Tensor]:
    named = learner.model.named_parameters()
    return {name: parameter.grad.clone() for name, parameter in named if parameter.grad is not None}


def test_balance_loss_is_added_per_target_and_reported_separately() -> None:
    plain, balanced = learner(balance_loss=0.0), learner(balance_loss=0.5)
    plain_update, update = (learner_.update([batch()], 1, 0.0) for learner_ in (plain, balanced))
    assert plain_update.loss == pytest.approx(update.loss, rel=1e-12)
    assert plain_update.aux_loss == 0.0
    assert 0.5 * STACKS <= update.aux_loss < 2 * 0.5 * STACKS  # the minimum is at uniform routing
    routers = [name for name in gradients(plain) if "router" in name]
    assert len(routers) == STACKS
    for name in routers:
        assert not torch.allclose(gradients(plain)[name], gradients(balanced)[name], rtol=1e-2)


def test_assignments_count_tokens_without_padding() -> None:
    pairs = batch()
    counts = learner().update([pairs], 1, 0.0).counts
    tokens = int(pairs.source_mask.sum()) + int(pairs.target_mask[:, 1:].sum())
    assert counts == {"assignments": 2 * tokens, "dropped": 0}
    assert learner(capacity_factor=0.5).update([pairs], 1, 0.0).counts["dropped"] > 0


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_threads_and_accumulation_change_nothing_without_a_balance_loss(
    monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    learners = []
    for tokens_per_worker, batches in (
        (10**9, [batch()]),
        (1, [batch()]),
        (10**9, halves(batch())),
    ):
        monkeypatch.setattr("regard.training.thread_parallel.TOKENS_PER_WORKER", tokens_per_worker)
        trained = learner({"optimizer": optimizer}, balance_loss=0.0)
        updates = [trained.update(batches, step, 0.0) for step in (1, 2, 3)]
        learners.append((trained, [update.counts for update in updates]))
    first, counts = learners[0]
    for other, other_counts in learners[1:]:
        assert counts == other_counts
        for parameter, expected in zip(
            first.model.parameters(), other.model.parameters(), strict=True
        ):
            torch.testing.assert_close(parameter, expected, rtol=1e-6, atol=1e-8)


def halves(whole: PairBatch) -> list[PairBatch]:
    return [whole.shard(rank, 2) for rank in range(2)]


@pytest.mark.usefixtures("four_threads")
def test_threads_draw_reproducible_jitter_and_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("regard.training.thread_parallel.TOKENS_PER_WORKER", 1)
    updates = []
    for _ in range(2):
        trained = learner(jitter=0.3, capacity_factor=0.8, balance_loss=0.1)
        updates.append([trained.update([batch()], step, 0.0) for step in (1, 2)])
    assert updates[0] == updates[1]
    assert updates[0][0].counts["dropped"] > 0


def test_a_model_without_experts_has_no_aux_loss_or_counts(make_learner: Any, toy: Any) -> None:
    update = make_learner().update([toy().batch(1)], 1, 0.0)
    assert (update.aux_loss, update.counts) == (0.0, {})


MIXTURE = "model.feed_forward={kind: moe, num_experts: 4, capacity_factor: 0.7, balance_loss: 0.02}"


def test_a_run_reports_dropped_assignments(tiny: Any, tmp_path: Path) -> None:
    train(tiny(MIXTURE, "training.steps=4", "training.evaluation.every=4"), tmp_path / "run")
    steps = [event for event in metrics.read(tmp_path / "run") if "grad_norm" in event]
    assert len(steps) == 4
    for step in steps:
        assert step["assignments"] > step["dropped"] > 0
        assert step["aux_loss"] >= 0.02 * 4  # two blocks in each of two stacks
    assignments, dropped = (
        sum(event[name] for event in steps) for name in ("assignments", "dropped")
    )
    card = (tmp_path / "run/README.md").read_text(encoding="utf-8")
    assert f"assigned to experts {assignments:,} times" in card
    assert f"{dropped:,} times ({dropped / assignments:.2%}) the expert was full" in card
    names = load_file(run_folder.path_of(tmp_path / "run", run_folder.WEIGHTS)).keys()
    assert "encoder.blocks.0.feed_forward.experts.3.down_proj.weight" in names


def test_a_run_without_experts_reports_none(tiny: Any, tmp_path: Path) -> None:
    train(tiny("training.steps=2", "training.evaluation.every=2"), tmp_path / "run")
    text = (tmp_path / "run" / metrics.NAME).read_text()
    assert not {"aux_loss", "assignments", "counts"} & set().union(
        *map(json.loads, text.splitlines())
    )
    assert "experts" not in (tmp_path / "run/README.md").read_text(encoding="utf-8")
