"""Prove that it learns: copying, reversing and sorting, from scratch, in seconds."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import torch
from torch import nn

from regard.data.batching import Batch, Example, collate
from regard.decoding.greedy import greedy
from regard.errors import TrainingError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.kind import ModelSpec
from regard.training.loop import TrainingSpec, fit, schedule
from regard.training.objectives import translation
from regard.training.optimisers import OptimiserSpec
from regard.training.optimisers.muon import orthogonal

PAD, START, END, FIRST, V = 0, 1, 2, 3, 13
SMALL = {"kind": "encoder-decoder", "dim": 48, "heads": 4, "inner": 96, "layers": 2, "dropout": 0}


def examples(task: Callable[[list[int]], list[int]], seed: int, rows: int) -> Iterator[Batch]:
    random = torch.Generator().manual_seed(seed)
    while True:
        drawn = [
            torch.randint(FIRST, V, (int(torch.randint(3, 8, (), generator=random)),),
                          generator=random).tolist()
            for _ in range(rows)
        ]  # fmt: skip
        yield collate([Example([*ids, END], [START, *task(ids), END]) for ids in drawn], PAD)


def model() -> EncoderDecoder:
    built = ModelSpec.model_validate(SMALL).build(V)
    assert isinstance(built, EncoderDecoder)
    return built


@pytest.mark.parametrize(
    ("task", "optimiser"),
    [
        (lambda ids: ids, "adamw"),
        (lambda ids: ids[::-1], "muon"),
        (sorted, "muon"),
    ],
    ids=["copy", "reverse", "sort"],
)
def test_a_task_is_learned_in_seconds(
    task: Callable[[list[int]], list[int]], optimiser: str
) -> None:
    learner = model()
    spec = TrainingSpec.model_validate(
        {"steps": 250, "optimiser": {"kind": optimiser, "learning_rate": 0.005}, "warmup": 20}
    )
    for _ in fit(learner, lambda m, b: translation(m, b, 0.0), examples(task, 1, 64), spec):
        pass
    batch = next(examples(task, seed=2, rows=100))
    state = learner.start(batch.source, batch.source_padding)
    said = greedy(learner, state, torch.full((100,), START), END, [10] * 100)
    wanted = [
        [each for each in row if each not in (PAD, START, END)] for row in batch.target.tolist()
    ]
    right = sum(one == other for one, other in zip(said, wanted, strict=True))
    assert right >= 95


def test_the_same_seed_gives_the_same_losses() -> None:
    def losses() -> list[float]:
        torch.manual_seed(5)
        steps = fit(
            model(),
            lambda m, b: translation(m, b, 0.1),
            examples(sorted, 1, 16),
            TrainingSpec(steps=5),
        )
        return [progress.loss for progress in steps]

    assert losses() == losses()


def test_padding_does_not_count_in_the_loss() -> None:
    learner = model().eval()
    short = Example([5, 6, END], [START, 6, 5, END])
    long = Example([4] * 7 + [END], [START, *[4] * 7, END])
    together = translation(learner, collate([short, long], PAD), 0.1)
    apart = sum(translation(learner, collate([each], PAD), 0.1) for each in (short, long))
    assert together.item() == pytest.approx(apart.item(), rel=1e-5)


def test_label_smoothing_is_its_equation() -> None:
    learner, smoothing = model().eval(), 0.2
    batch = collate([Example([5, 6, END], [START, 6, END])], PAD)
    logits = learner(batch.source, batch.source_padding, batch.target[:, :-1])[0].log_softmax(-1)
    wanted = batch.target[0, 1:]
    expected = sum(
        -(1 - smoothing) * logits[i, wanted[i]] - smoothing * logits[i].mean() for i in range(2)
    )
    assert translation(learner, batch, smoothing).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_rate_warms_up_and_falls_to_zero() -> None:
    factor = schedule(TrainingSpec(steps=100, warmup=10))
    factors = [factor(step) for step in range(101)]
    assert factors[0] == pytest.approx(1 / 11)
    assert max(factors) == pytest.approx(1.0)
    assert factors.index(max(factors)) == 10
    assert factors[100] == 0.0
    assert all(later < earlier for earlier, later in pairwise(factors[10:]))


def test_muon_moves_along_an_orthogonal_matrix() -> None:
    for shape in ((2, 16, 16), (1, 8, 32), (1, 32, 8)):
        singular = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert singular.min() > 0.3
        assert singular.max() < 1.5


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_every_parameter_moves(kind: str) -> None:
    learner = model()
    before = {name: parameter.clone() for name, parameter in learner.named_parameters()}
    spec = TrainingSpec.model_validate({"steps": 3, "optimiser": kind})
    for _ in fit(learner, lambda m, b: translation(m, b, 0.1), examples(sorted, 1, 16), spec):
        pass
    for name, parameter in learner.named_parameters():
        if not name.endswith("w_k.bias"):  # softmax cancels it
            assert not torch.equal(parameter, before[name]), name


def test_a_loss_that_is_not_finite_ends_training_with_a_sentence() -> None:
    def broken(learner: nn.Module, batch: Batch) -> torch.Tensor:
        return translation(learner, batch, 0.0) * float("nan")

    with pytest.raises(TrainingError, match="not finite at step 1: lower"):
        list(fit(model(), broken, examples(sorted, 1, 4), TrainingSpec(steps=3)))


def test_optimisers_share_their_settings() -> None:
    for kind in ("adamw", "muon"):
        spec = OptimiserSpec.model_validate({"kind": kind, "learning_rate": 0.25})
        assert all(group["lr"] == 0.25 for o in spec.build(model()) for group in o.param_groups)
