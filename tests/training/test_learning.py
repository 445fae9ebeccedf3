"""Copying, reversing and sorting learned from scratch; losses and optimizers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.config import validate
from regard.data.batches.pairs import Example, PairBatch, collate
from regard.data.sampling.sampler import DataCursor
from regard.decoding.greedy import greedy
from regard.engine.torch_model import TorchModel
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
    """A task: the target follows from the source by a rule."""

    metric = "loss"

    def __init__(self, rule: Rule, rows: int) -> None:
        self.rule, self.rows = rule, rows

    def model(self) -> Any:
        return model()

    def batch(self, number: int, rows: int) -> PairBatch:
        rng = torch.Generator().manual_seed(number)
        lengths = torch.randint(3, 8, (rows,), generator=rng).tolist()
        sources = [torch.randint(FIRST, V, (n,), generator=rng).tolist() for n in lengths]
        examples = [Example([*ids, END], [START, *self.rule(ids), END]) for ids in sources]
        return collate(examples, PAD)

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


def train_puzzle(task: Puzzle, folder: Path, **settings: Any) -> tuple[Learner, list[float]]:
    """Train the task; return the learner and its losses."""
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
def test_copying_reversing_and_sorting_are_learned(
    rule: Rule, optimizer: str, tmp_path: Path
) -> None:
    task = Puzzle(rule, rows=64)
    learner, losses = train_puzzle(
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
    model = TorchModel(translator)
    state = model.start(batch.source.numpy(), batch.source_mask.numpy())
    outputs = greedy(model, state, np.full(100, START), END, [10] * 100)
    targets = [
        [token for token in row if token not in (PAD, START, END)] for row in batch.target.tolist()
    ]
    correct = sum(output == target for output, target in zip(outputs, targets, strict=True))
    assert correct >= 95


def test_the_same_seed_gives_the_same_losses(tmp_path: Path) -> None:
    first, repeated, other_seed = (
        train_puzzle(Puzzle(sorted, 16), tmp_path / str(n), steps=5, seed=seed)[1]
        for n, seed in enumerate((5, 5, 6))
    )
    assert first == repeated
    assert first != other_seed


def test_padding_does_not_change_the_loss() -> None:
    translator = model().eval()
    short = Example([5, 6, END], [START, 6, 5, END])
    long = Example([4] * 7 + [END], [START, *[4] * 7, END])
    batched = translation(translator, collate([short, long], PAD), 0.1)
    separate = sum(
        translation(translator, collate([example], PAD), 0.1) for example in (short, long)
    )
    assert batched.item() == pytest.approx(separate.item(), rel=1e-5)


def test_label_smoothing_matches_its_equation() -> None:
    translator, smoothing = model().eval(), 0.2
    batch = collate([Example([5, 6, END], [START, 6, END])], PAD)
    logits = translator(batch.source, batch.source_mask, batch.target[:, :-1])[0].log_softmax(-1)
    targets = batch.target[0, 1:]
    expected = sum(
        -(1 - smoothing) * logits[i, targets[i]] - smoothing * logits[i].mean() for i in range(2)
    )
    actual = translation(translator, batch, smoothing).item()
    assert actual == pytest.approx(expected.item(), rel=1e-5)


def test_an_output_bias_of_zero_changes_neither_loss_nor_gradients() -> None:
    """With a bias, torch's cross-entropy is used instead of the sliced one."""
    plain, biased = model(), model(output_bias=True)
    biased.load_state_dict({**plain.state_dict(), "decoder.output.bias": torch.zeros(V)})
    batch = Puzzle(sorted, 8).batch(1, 8)
    losses = [translation(translator.eval(), batch, 0.1) for translator in (plain, biased)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    gradients = [
        torch.autograd.grad(loss, translator.output.weight)[0]
        for loss, translator in zip(losses, (plain, biased), strict=True)
    ]
    assert torch.allclose(*gradients, atol=1e-4)


@pytest.mark.parametrize(("steps", "least", "most"), [(3, 0.1, 1.9), (5, 0.7, 1.3)])
@pytest.mark.parametrize("shape", [(2, 16, 16), (1, 8, 32), (1, 32, 8), (1, 10, 12)])
def test_newton_schulz_returns_the_nearest_orthogonal_matrix(
    shape: tuple[int, ...], steps: int, least: float, most: float
) -> None:
    matrices = torch.randn(shape)
    result = orthogonal(matrices, steps)
    u, singular, v = torch.linalg.svd(result, full_matrices=False)
    assert singular.min() > least
    assert singular.max() < most
    # The nearest one: it has the singular vectors of the matrix.
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    rotated = u.mT @ result @ v.mT
    assert torch.allclose(rotated, torch.diag_embed(rotated.diagonal(dim1=-2, dim2=-1)), atol=1e-3)


@pytest.mark.parametrize("shape", [(2, 64, 64), (1, 32, 128), (1, 128, 32)])
def test_orthogonal_matrices_in_bfloat16(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape) + 3 * torch.randn(shape[0], shape[1], 1)  # one large value
    exact, rounded = orthogonal(matrices), orthogonal(matrices, precision=torch.bfloat16)
    assert rounded.dtype == torch.bfloat16
    assert (rounded - exact).norm() < 0.1 * exact.norm()


def test_muon_matches_its_equation() -> None:
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
def test_every_parameter_is_updated(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    before = dict(model().named_parameters())
    learner, _ = train_puzzle(Puzzle(sorted, 16), tmp_path, steps=3, optimizer=kind)
    for name, parameter in learner.model.named_parameters():
        if not name.endswith("w_k.bias"):  # softmax cancels it
            assert not torch.equal(parameter, before[name]), name


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_learning_rate_and_weight_decay_apply_to_all_optimizers_of_a_kind(kind: str) -> None:
    settings = {"kind": kind, "learning_rate": 0.25, "weight_decay": 0.125}
    translator = model()
    optimizers = validate(OptimizerSpec, settings, "recipe").build(translator)
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    assert all(group["lr"] == 0.25 for group in groups)
    decay = {parameter: group["weight_decay"] for group in groups for parameter in group["params"]}
    assert decay.keys() == set(translator.parameters())
    assert decay[translator.encoder.blocks[0].attention.w_q.weight] == 0.125
    assert decay[translator.encoder.embedding.tokens.weight] == 0
    assert all(decay[parameter] == 0 for parameter in decay if parameter.dim() == 1)


def test_the_default_learning_rate_depends_on_the_number_of_updates() -> None:
    muon = validate(OptimizerSpec, {"kind": "muon"}, "recipe")
    assert muon.rate(4000) == pytest.approx(muon.rate() / 2)
    assert muon.rate(250) == pytest.approx(2 * muon.rate())
    assert muon.rate(1) == muon.rate(100)
    fixed = validate(OptimizerSpec, {"kind": "muon", "learning_rate": 0.01}, "recipe")
    assert fixed.rate(4000) == fixed.rate(10) == 0.01
    assert validate(OptimizerSpec, {"kind": "adamw"}, "recipe").rate(4000) == 2e-3


@pytest.mark.parametrize("kind", ["muon", "adamw"])
@pytest.mark.parametrize("betas", [[0.9, 1.0], [-0.1, 0.9], [0.9]])
def test_invalid_betas_are_refused(kind: str, betas: list[float]) -> None:
    with pytest.raises(ConfigError, match="recipe: betas"):
        validate(OptimizerSpec, {"kind": kind, "betas": betas}, "recipe")
