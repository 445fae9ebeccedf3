"""One update: accumulation, clipping, skipped updates, randomness, rates and precision."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import validate
from regard.data.batches.pairs import Example, PairBatch, collate
from regard.layers.dropout import Dropout
from regard.models.base import ModelSpec, parameter_count
from regard.models.encoder_decoder import EncoderDecoder
from regard.training import learner as learner_module
from regard.training.config import TrainingSpec
from regard.training.distributed.world import World
from regard.training.learner import Learner
from regard.training.loss import lm_head_loss
from regard.training.optim.optimizers.muon import Muon

PAD, START, END, V = 0, 1, 2, 20
SMALL = {"kind": "encoder-decoder", "dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1}

MakeLearner = Callable[..., Learner]


def weights(learner: Learner) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in learner.model.parameters()]


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def copy_loss(model: nn.Module, batch: PairBatch) -> Tensor:
    assert isinstance(model, EncoderDecoder)
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1])
    return lm_head_loss(model, states, batch.target[:, 1:], batch.target_mask[:, 1:], 0.1)


def translator(dropout: float, **settings: Any) -> Learner:
    """Make a learner of an encoder-decoder, in double precision to avoid rounding."""
    spec = validate(TrainingSpec, {"steps": 100, "precision": "float32", **settings}, "recipe")
    torch.manual_seed(spec.seed)
    model = validate(ModelSpec, {**SMALL, "dropout": dropout}, "recipe").build(V).double()
    return Learner(model, copy_loss, spec, World())


def examples(count: int) -> list[Example]:
    random = torch.Generator().manual_seed(3)
    rows = []
    for _ in range(count):
        length = int(torch.randint(1, 12, (), generator=random))
        ids = torch.randint(3, V, (length,), generator=random).tolist()
        rows.append(Example([*ids, END], [START, *ids, END]))
    return rows


@pytest.mark.usefixtures("four_threads")
def test_threaded_backward_changes_only_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = collate(examples(40), PAD)
    learners = []
    for tokens_per_worker in (10**9, 1):
        monkeypatch.setattr("regard.training.thread_parallel.TOKENS_PER_WORKER", tokens_per_worker)
        learner = translator(0.0)
        for step in range(1, 4):
            learner.update([batch], step, 0.0)
        learners.append(learner)
    for one, other in zip(weights(learners[0]), weights(learners[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("boundaries", [[16, 32, 48], [1, 5, 60]])
def test_gradient_accumulation_matches_a_single_batch(
    optimizer: str, boundaries: list[int]
) -> None:
    rows = examples(64)
    single, accumulating = (translator(0.0, optimizer=optimizer) for _ in range(2))
    batches = [
        collate(rows[a:b], PAD)
        for a, b in zip([0, *boundaries], [*boundaries, len(rows)], strict=True)
    ]
    for step in (1, 2):
        update = single.update([collate(rows, PAD)], step, 0.0)
        accumulated = accumulating.update(batches, step, 0.0)
        assert update.loss == pytest.approx(accumulated.loss, rel=1e-12)
        assert update.grad_norm == pytest.approx(accumulated.grad_norm, rel=1e-12)
        assert update.tokens == accumulated.tokens == sum(len(row.target) - 1 for row in rows)
        for one, other in zip(
            single.model.parameters(), accumulating.model.parameters(), strict=True
        ):
            assert one.grad is not None
            assert other.grad is not None
            assert torch.allclose(one.grad, other.grad, rtol=1e-9, atol=1e-12)
            assert torch.allclose(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_non_finite_loss_skips_the_update(
    make_learner: MakeLearner, toy: Any, optimizer: str
) -> None:
    task = toy(poisoned=[2])
    learner = make_learner(task, optimizer=optimizer, ema_decay=0.9)
    reference = make_learner(task, optimizer=optimizer, ema_decay=0.9)
    for each in (learner, reference):
        assert each.update([task.batch(1)], 1, 0.0).applied
    before = weights(learner)
    states = copy.deepcopy([each.state_dict() for each in learner.optimizers])
    update = learner.update([task.batch(2)], 2, 0.0)
    assert not update.applied
    assert update.loss != update.loss
    assert equal(weights(learner), before)
    assert str(states) == str([each.state_dict() for each in learner.optimizers])
    for each in (learner, reference):
        each.update([task.batch(3)], 3, 0.0)
    assert equal(weights(learner), weights(reference))
    assert learner.ema is not None
    assert reference.ema is not None
    assert equal(learner.ema.values, reference.ema.values)


def test_one_non_finite_batch_skips_the_whole_update(make_learner: MakeLearner, toy: Any) -> None:
    task = toy(poisoned=[2])
    learner = make_learner(task)
    before = weights(learner)
    assert not learner.update([task.batch(1), task.batch(2)], 1, 0.0).applied
    assert equal(weights(learner), before)


def test_a_non_finite_gradient_skips_the_update(toy: Any) -> None:
    """The square root of zero is zero, and its derivative is not finite."""
    spec = validate(TrainingSpec, {"steps": 9}, "recipe")
    task = toy()
    learner = Learner(
        task.model(), lambda model, batch: (0 * model(batch.inputs)).sqrt().sum(), spec, World()
    )
    before = weights(learner)
    update = learner.update([task.batch(1)], 1, 0.0)
    assert update.loss == 0
    assert not update.applied
    assert equal(weights(learner), before)


def gradient_norm(learner: Learner) -> float:
    gradients = [p.grad for p in learner.model.parameters() if p.grad is not None]
    return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())


@pytest.mark.parametrize("max_grad_norm", [1e-3, 1e3])
def test_gradients_are_clipped_to_the_maximum_norm(
    make_learner: MakeLearner, toy: Any, max_grad_norm: float
) -> None:
    learner = make_learner(max_grad_norm=max_grad_norm)
    update = learner.update([toy().batch(1)], 1, 0.0)
    assert 1e-3 < update.grad_norm < 1e3
    assert gradient_norm(learner) == pytest.approx(min(max_grad_norm, update.grad_norm), rel=1e-3)


def trained(learner: Learner, batches: list[Any], disturb: bool = False) -> list[Tensor]:
    for step, batch in enumerate(batches, start=1):
        if disturb:
            torch.manual_seed(1000 + step)
            torch.rand(step)
        learner.update([batch], step, step / 10)
    return weights(learner)


def test_randomness_depends_only_on_seed_and_step() -> None:
    batches = [collate(examples(8), PAD)] * 4
    one = trained(translator(0.3), batches)
    assert equal(one, trained(translator(0.3), batches))
    assert equal(one, trained(translator(0.3), batches, disturb=True))
    assert not equal(one, trained(translator(0.3, seed=2), batches))


def test_dropout_differs_from_step_to_step() -> None:
    """Batch and weights are the same; only the step differs."""
    learner, batch = translator(0.5, optimizer={"learning_rate": 1e-12}), collate(examples(8), PAD)
    first, second = (learner.update([batch], step, 0.0).loss for step in (1, 2))
    assert abs(first - second) > 1e-3


def test_counting_flops_changes_no_update() -> None:
    """Operations are counted in the first update of a process, also after resuming."""
    batches = [collate(examples(8), PAD)]
    counting, plain = translator(0.1), translator(0.1)
    plain.flops_per_token = 1.0
    assert equal(trained(counting, batches), trained(plain, batches))
    # Forward and backward: at least six operations for each weight of a matrix and each token.
    assert counting.flops_per_token > parameter_count(counting.model)
    assert plain.flops_per_token == 1.0


def test_the_schedule_sets_every_learning_rate(make_learner: MakeLearner, toy: Any) -> None:
    learner = make_learner(
        schedule={"kind": "linear", "warmup": 3}, optimizer={"learning_rate": 0.1}
    )
    for step, factor in ((1, 0.25), (2, 0.5), (4, 0.6)):
        learner.update([toy().batch(step)], step, 0.4)
        for optimizer in learner.optimizers:
            for group in optimizer.param_groups:
                assert group["lr"] == pytest.approx(0.1 * factor)


def test_the_default_learning_rate_follows_the_planned_updates(
    make_learner: MakeLearner, toy: Any
) -> None:
    def learning_rate(**spec: Any) -> float:
        learner = make_learner(
            schedule={"kind": "constant", "warmup": 0}, optimizer={"kind": "muon"}, **spec
        )
        learner.update([toy().batch(1)], 51, 0.125)
        (rate,) = {
            group["lr"] for optimizer in learner.optimizers for group in optimizer.param_groups
        }
        return rate

    expected = learning_rate(steps=1000)
    assert learning_rate(steps=250) == pytest.approx(2 * expected)
    # Fifty updates in an eighth of the time: four hundred are expected.
    assert learning_rate(steps=None, budget=100.0) == pytest.approx(expected * 2.5**0.5)


def test_planned_updates_are_defined_before_any_time_has_passed() -> None:
    spec = TrainingSpec(budget=100.0)
    assert spec.updates(3, 0.0) == spec.updates(0, 0.0) == 1000


def test_dropout_starts_at_its_epoch(make_learner: MakeLearner, toy: Any) -> None:
    learner = make_learner(dropout_start_epoch=1)
    for epoch in (0, 1, 0):
        learner.update([toy().batch(1)], 1, 0.0, epoch=epoch)
        disabled = {m.disabled for m in learner.model.modules() if isinstance(m, Dropout)}
        assert disabled == {epoch == 0}


def test_evaluation_uses_ema_weights_without_dropout(make_learner: MakeLearner, toy: Any) -> None:
    learner = make_learner(ema_decay=0.5)
    learner.update([toy().batch(1)], 1, 0.0)
    assert learner.ema is not None
    before, average = weights(learner), [value.clone() for value in learner.ema.values]
    with learner.for_evaluation() as model:
        assert not any(module.training for module in model.modules())
        assert equal(weights(learner), average)
        assert not equal(average, before)
    assert equal(weights(learner), before)


def test_stop_requests_and_seconds_are_returned(make_learner: MakeLearner, toy: Any) -> None:
    update = make_learner().update([toy().batch(1)], 1, 0.0, stop_requested=True, seconds=2.5)
    assert update.stop_requested
    assert update.seconds == 2.5
    assert not make_learner().update([toy().batch(1)], 1, 0.0).stop_requested


def test_precision_sets_the_dtype_of_the_forward_pass(make_learner: MakeLearner, toy: Any) -> None:
    dtypes = []

    def loss(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch.inputs)
        dtypes.append(out.dtype)
        return (out - batch.targets).square().sum()

    for precision in ("bfloat16", "float32"):
        learner = make_learner(precision=precision)
        Learner(learner.model, loss, learner.spec, World()).update([toy().batch(1)], 1, 0.0)
    # Each twice: operations are counted first.
    assert dtypes == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]


@pytest.mark.parametrize(
    ("dim", "others", "dtype"),
    [
        (256, [], torch.bfloat16),
        (128, [], torch.float32),  # too narrow
        (256, [False], torch.float32),  # another process has no bfloat16
    ],
)
def test_automatic_precision(
    dim: int, others: list[bool], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_module, "computes_bfloat16", lambda _: True)
    monkeypatch.setattr(World, "all_gather", lambda _, value: [value, *others])
    model = validate(ModelSpec, {**SMALL, "dim": dim, "ffn_dim": dim}, "recipe").build(300)
    spec = validate(TrainingSpec, {"steps": 1, "optimizer": "muon"}, "recipe")
    learner = Learner(model, copy_loss, spec, World())
    assert learner.precision == dtype
    assert [
        optimizer.precision for optimizer in learner.optimizers if isinstance(optimizer, Muon)
    ] == [dtype]


def test_updates_seed_the_rng_by_step_and_queue_no_cuda_calls() -> None:
    learner = translator(dropout=0.5)
    batch = collate(examples(4), PAD)
    queued = len(torch.cuda._queued_calls)  # torch.manual_seed appends without a GPU
    learner.update([batch], 1, 0.0)
    rng_state = torch.get_rng_state()
    learner.update([batch], 1, 0.0)
    assert torch.equal(torch.get_rng_state(), rng_state)
    learner.update([batch], 2, 0.0)
    assert not torch.equal(torch.get_rng_state(), rng_state)
    assert len(torch.cuda._queued_calls) == queued
