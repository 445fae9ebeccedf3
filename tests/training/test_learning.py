"""Prove that it learns: copying, reversing and sorting, from scratch, in seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import validate
from regard.data.batches.pairs import Example, PairBatch, collate
from regard.data.sampling.sampler import DataCursor
from regard.decoding.greedy import greedy
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.training.checkpoint import TrainState
from regard.training.config import TrainingSpec
from regard.training.distributed.world import World
from regard.training.events import Step
from regard.training.learner import Learner
from regard.training.loop import fit
from regard.training.loss import lm_head_loss
from regard.training.optim.optimizers.base import OptimizerSpec
from regard.training.optim.optimizers.muon import Muon, orthogonal
from regard.training.reporting.progress import Reporter
from regard.training.signals import Interruption
from regard.training.tasks.base import TaskResult

PAD, START, END, FIRST, V = 0, 1, 2, 3, 13
SMALL = {"kind": "encoder-decoder", "dim": 48, "heads": 4, "ffn_dim": 96, "layers": 2, "dropout": 0}

Rule = Callable[[list[int]], list[int]]


def model(**settings: Any) -> EncoderDecoder:
    built = validate(ModelSpec, {**SMALL, **settings}, "recipe").build(V)
    assert isinstance(built, EncoderDecoder)
    return built


def translation(model: nn.Module, batch: PairBatch, smoothing: float) -> Tensor:
    assert isinstance(model, EncoderDecoder)
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1])
    return lm_head_loss(model, states, batch.target[:, 1:], batch.target_mask[:, 1:], smoothing)


class Puzzle:
    """A task: what is said follows from what is heard by some rule."""

    metric = "loss"

    def __init__(self, rule: Rule, rows: int) -> None:
        self.rule, self.rows = rule, rows

    def model(self) -> Any:
        return model()

    def batch(self, number: int, rows: int) -> PairBatch:
        chance = torch.Generator().manual_seed(number)
        lengths = torch.randint(3, 8, (rows,), generator=chance).tolist()
        drawn = [torch.randint(FIRST, V, (n,), generator=chance).tolist() for n in lengths]
        said = [Example([*ids, END], [START, *self.rule(ids), END]) for ids in drawn]
        return collate(said, PAD)

    def batches(self, position: DataCursor) -> Iterator[tuple[PairBatch, DataCursor]]:
        number = position.batch
        while True:
            number += 1
            yield self.batch(number, self.rows), DataCursor(batch=number)

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        return translation(model, batch, 0.0)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        return {"loss": float(self.loss(model, self.batch(0, 100)))}

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        raise NotImplementedError


def learned(task: Puzzle, folder: Path, **settings: Any) -> tuple[Learner, list[float]]:
    """A learner of the task when its steps are done, and its losses on the way."""
    spec = validate(TrainingSpec, settings, "recipe")
    torch.manual_seed(spec.seed)
    learner = Learner(model(), task.loss, spec, World())
    events = fit(learner, task, TrainState(), folder, Interruption())
    return learner, [event.loss for event in events if isinstance(event, Step)]


@pytest.mark.parametrize(
    ("rule", "optimizer"),
    [
        (lambda ids: ids, "adamw"),
        (lambda ids: ids[::-1], "muon"),
        (sorted, "muon"),
    ],
    ids=["copy", "reverse", "sort"],
)
def test_a_task_is_learned_in_seconds(rule: Rule, optimizer: str, tmp_path: Path) -> None:
    task = Puzzle(rule, rows=64)
    learner, losses = learned(
        task,
        tmp_path,
        steps=250,
        optimizer={"kind": optimizer, "learning_rate": 0.005},
        schedule={"kind": "linear", "warmup": 20},
    )
    assert losses[-1] < losses[0] / 10
    translator = learner.model.eval()
    assert isinstance(translator, EncoderDecoder)
    batch = task.batch(10**6, rows=100)
    state = translator.start(batch.source, batch.source_mask)
    said = greedy(translator, state, torch.full((100,), START), END, [10] * 100)
    wanted = [
        [each for each in row if each not in (PAD, START, END)] for row in batch.target.tolist()
    ]
    right = sum(one == other for one, other in zip(said, wanted, strict=True))
    assert right >= 95


def test_the_same_seed_gives_the_same_losses(tmp_path: Path) -> None:
    one, two, other = (
        learned(Puzzle(sorted, 16), tmp_path / str(n), steps=5, seed=seed)[1]
        for n, seed in enumerate((5, 5, 6))
    )
    assert one == two
    assert one != other


def test_padding_does_not_count_in_the_loss() -> None:
    translator = model().eval()
    short = Example([5, 6, END], [START, 6, 5, END])
    long = Example([4] * 7 + [END], [START, *[4] * 7, END])
    together = translation(translator, collate([short, long], PAD), 0.1)
    apart = sum(translation(translator, collate([each], PAD), 0.1) for each in (short, long))
    assert together.item() == pytest.approx(apart.item(), rel=1e-5)


def test_label_smoothing_is_its_equation() -> None:
    translator, smoothing = model().eval(), 0.2
    batch = collate([Example([5, 6, END], [START, 6, END])], PAD)
    logits = translator(batch.source, batch.source_mask, batch.target[:, :-1])[0].log_softmax(-1)
    wanted = batch.target[0, 1:]
    expected = sum(
        -(1 - smoothing) * logits[i, wanted[i]] - smoothing * logits[i].mean() for i in range(2)
    )
    found = translation(translator, batch, smoothing).item()
    assert found == pytest.approx(expected.item(), rel=1e-5)


def test_with_a_bias_in_the_output_the_loss_is_the_same_function() -> None:
    """There torch's own cross-entropy is used; a bias of zero must change nothing."""
    plain, biased = model(), model(output_bias=True)
    biased.load_state_dict({**plain.state_dict(), "decoder.output.bias": torch.zeros(V)})
    batch = Puzzle(sorted, 8).batch(1, 8)
    losses = [translation(each.eval(), batch, 0.1) for each in (plain, biased)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    gradients = [
        torch.autograd.grad(loss, each.output.weight)[0]
        for loss, each in zip(losses, (plain, biased), strict=True)
    ]
    assert torch.allclose(*gradients, atol=1e-4)


@pytest.mark.parametrize(("steps", "least", "most"), [(3, 0.1, 1.9), (5, 0.7, 1.3)])
@pytest.mark.parametrize("shape", [(2, 16, 16), (1, 8, 32), (1, 32, 8), (1, 10, 12)])
def test_muon_moves_along_an_orthogonal_matrix(
    shape: tuple[int, ...], steps: int, least: float, most: float
) -> None:
    matrices = torch.randn(shape)
    found = orthogonal(matrices, steps)
    u, singular, v = torch.linalg.svd(found, full_matrices=False)
    assert singular.min() > least
    assert singular.max() < most
    # And it is the nearest: what is left of its singular values is that of the matrix.
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    turned = u.mT @ found @ v.mT
    assert torch.allclose(turned, torch.diag_embed(turned.diagonal(dim1=-2, dim2=-1)), atol=1e-3)


def test_muon_is_its_equation() -> None:
    weight = nn.Parameter(torch.randn(6, 10, dtype=torch.float64))
    optimizer = Muon([weight], lr=0.1, momentum=0.9, weight_decay=0.5)
    expected, momentum = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(3):
        gradient = torch.randn_like(weight)
        weight.grad = gradient.clone()
        optimizer.step()
        momentum = 0.9 * momentum + gradient
        update = orthogonal((gradient + 0.9 * momentum)[None])[0]
        expected = (1 - 0.1 * 0.5) * expected - 0.1 * 0.2 * 10**0.5 * update
        assert torch.allclose(weight, expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_every_parameter_moves(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    before = dict(model().named_parameters())
    learner, _ = learned(Puzzle(sorted, 16), tmp_path, steps=3, optimizer=kind)
    for name, parameter in learner.model.named_parameters():
        if not name.endswith("w_k.bias"):  # softmax cancels it
            assert not torch.equal(parameter, before[name]), name


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_optimizers_share_their_settings(kind: str) -> None:
    settings = {"kind": kind, "learning_rate": 0.25, "weight_decay": 0.125}
    translator = model()
    optimizers = validate(OptimizerSpec, settings, "recipe").build(translator)
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    assert all(group["lr"] == 0.25 for group in groups)
    decay = {each: group["weight_decay"] for group in groups for each in group["params"]}
    assert decay.keys() == set(translator.parameters())
    assert decay[translator.encoder.blocks[0].attention.w_q.weight] == 0.125
    assert decay[translator.encoder.embedding.tokens.weight] == 0
    assert all(decay[each] == 0 for each in decay if each.dim() == 1)


def test_a_rate_is_planned_for_the_length_of_training() -> None:
    muon = validate(OptimizerSpec, {"kind": "muon"}, "recipe")
    assert muon.rate(4000) == pytest.approx(muon.rate() / 2)
    assert muon.rate(250) == pytest.approx(2 * muon.rate())
    assert muon.rate(1) == muon.rate(100)
    given = validate(OptimizerSpec, {"kind": "muon", "learning_rate": 0.01}, "recipe")
    assert given.rate(4000) == given.rate(10) == 0.01
    assert validate(OptimizerSpec, {"kind": "adamw"}, "recipe").rate(4000) == 2e-3


@pytest.mark.parametrize("kind", ["muon", "adamw"])
@pytest.mark.parametrize("betas", [[0.9, 1.0], [-0.1, 0.9], [0.9]])
def test_memories_that_cannot_be_are_refused(kind: str, betas: list[float]) -> None:
    with pytest.raises(ConfigError, match="recipe: betas"):
        validate(OptimizerSpec, {"kind": kind, "betas": betas}, "recipe")
