"""Two processes: they learn what one learns, can take its place, and share one fate."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard import run_folder
from regard.config import write_yaml
from regard.data.batches.pairs import Example, collate
from regard.errors import ConfigError
from regard.models.encoder_decoder import Spec
from regard.training.checkpoint import TENSORS, newest_first
from regard.training.distributed.world import World
from regard.training.loss import lm_head_loss
from regard.training.recipe import Recipe, read_recipe
from regard.training.reporting import metrics
from regard.training.trainer import resume, train

MakeRecipe = Callable[..., Recipe]

STEPS, LONGER = 6, "training.steps=9"
WHOLE, SHARDED = "training.fsdp=false", "training.fsdp=true"
SPREAD = "training.expert_parallel=true"
ENDLESS = (
    "training.steps=100000",
    "training.evaluation.every=100000",
    "training.checkpoint_every=3",
)
TIMEOUT = 180


@pytest.fixture(scope="module")
def recipe(tiny: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without dropout, whose masks follow from the rank; all else is to be the same."""
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    path.write_text(
        write_yaml(
            tiny(
                "model.dropout=0",
                f"training.steps={STEPS}",
                "training.batch_tokens=300",
                "training.grad_accumulation=2",
                "training.ema_decay=0.5",
                "training.optimizer.learning_rate=0.005",
                "training.schedule={kind: constant, warmup: 0}",
                "training.checkpoint_every=3",
                "training.evaluation.every=3",
            )
        )
    )
    return path


@pytest.fixture(scope="module")
def alone(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("alone") / "run"
    train(read_recipe(recipe), run)
    return run


@pytest.fixture(scope="module")
def alone_longer(alone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gone_on(alone, tmp_path_factory.mktemp("longer"), LONGER)


@pytest.fixture(scope="module", params=[WHOLE, SHARDED])
def two(
    request: pytest.FixtureRequest, recipe: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = tmp_path_factory.mktemp("two") / "run"
    ended(launched("train", recipe, request.param, "--run", run), code=0)
    return run


def launched(*arguments: object) -> subprocess.Popen[str]:
    """The command, in two processes."""
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
    return subprocess.Popen(
        [sys.executable, "-m", *torchrun, "regard", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], code: int) -> list[str]:
    """The sentences in which regard says why it ended."""
    said = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == code, said
    return [line for line in said.splitlines() if line.startswith("regard: ")]


def gone_on(run: Path, place: Path, *changes: str) -> Path:
    """A copy of the run, trained further by one process."""
    copy = Path(shutil.copytree(run, place / "run"))
    resume(copy, changes)
    return copy


def losses(run: Path) -> list[float]:
    """Of every step, and of every look at the dev data."""
    return [
        each["loss"] if "loss" in each else each["scores"]["loss"] for each in metrics.read(run)
    ]


def norms(run: Path) -> list[float]:
    """Of the gradients: to these optimizers, a gradient twice as long would be the same."""
    return [each["norm"] for each in metrics.read(run) if "norm" in each]


def assert_alike(run: Path, other: Path) -> None:
    assert losses(run) == pytest.approx(losses(other), abs=1e-4)
    assert norms(run) == pytest.approx(norms(other), rel=1e-3)
    weights, others = (load_file(each / run_folder.WEIGHTS) for each in (run, other))
    assert weights.keys() == others.keys()
    difference = sum((weights[name] - others[name]).square().sum() for name in weights)
    assert difference < 1e-6 * sum(weight.square().sum() for weight in weights.values())


def test_two_learn_what_one_learns(two: Path, alone: Path) -> None:
    assert losses(alone)[0] - losses(alone)[-1] > 0.3, "nothing was learned, so nothing is shown"
    assert_alike(two, alone)
    assert {path.name for path in two.iterdir()} == {path.name for path in alone.iterdir()}


def test_no_pickles(two: Path) -> None:
    kinds = {path.suffix for place in newest_first(two) for path in place.iterdir()}
    assert kinds == {".safetensors", ".json"}


def test_one_goes_on_where_two_stopped(two: Path, alone_longer: Path, tmp_path: Path) -> None:
    assert_alike(gone_on(two, tmp_path, LONGER), alone_longer)


@pytest.mark.parametrize("sharded", [WHOLE, SHARDED])
def test_two_go_on_where_one_stopped(
    alone: Path, alone_longer: Path, tmp_path: Path, sharded: str
) -> None:
    run = Path(shutil.copytree(alone, tmp_path / "run"))
    ended(launched("resume", run, LONGER, sharded), code=0)
    assert_alike(run, alone_longer)


def wait_for(checkpoint: str, run: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + TIMEOUT
    while not (run / "checkpoints" / checkpoint).exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.02)


def assert_resumable(run: Path, alone: Path) -> None:
    """By one process; and the curve is that of a run which was never cut off."""
    step = int(newest_first(run)[0].name.removeprefix("step-"))
    resume(run, (f"training.steps={step + 1}",))
    found, wanted = (
        [each["loss"] for each in metrics.read(place) if "loss" in each] for place in (run, alone)
    )
    assert len(found) == step + 1
    common = min(step + 1, STEPS)
    assert found[:common] == pytest.approx(wanted[:common], abs=1e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="looks up the processes in /proc")
def test_a_killed_process_ends_the_run_and_costs_no_checkpoint(
    recipe: Path, alone: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = launched("train", recipe, *ENDLESS, SHARDED, "--run", run)
    wait_for("step-000006", run, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    (sentence,) = ended(process, code=1)
    assert "another process of this run ended" in sentence
    assert "regard resume" in sentence
    assert_resumable(run, alone)


@pytest.mark.parametrize(("number", "sharded"), [(signal.SIGTERM, WHOLE), (signal.SIGINT, SHARDED)])
def test_a_signal_to_the_launcher_saves(
    recipe: Path, alone: Path, tmp_path: Path, number: signal.Signals, sharded: str
) -> None:
    run = tmp_path / "run"
    process = launched("train", recipe, *ENDLESS, sharded, "--run", run)
    wait_for("step-000003", run, process)
    process.send_signal(number)
    (sentence,) = ended(process, code=1)
    step = int(newest_first(run)[0].name.removeprefix("step-"))
    assert f"stopped at step {step}, saved: `regard resume" in sentence
    assert_resumable(run, alone)


def test_what_the_leading_process_cannot_write_ends_all(recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "checkpoints").write_text("a file is in the way")
    (sentence,) = ended(launched("train", recipe, "--run", run), code=1)
    assert "the checkpoint cannot be written" in sentence


def test_frozen_vectors_in_parts_are_refused(tiny: MakeRecipe, tmp_path: Path) -> None:
    recipe = tiny(SHARDED, "pretrained_embeddings={path: some.txt, frozen: true}")
    with pytest.raises(ConfigError, match=r"pretrained_embeddings\.frozen.*training\.fsdp"):
        train(recipe, tmp_path / "run")


def test_alone_all_sums_are_what_is_given() -> None:
    world, turns = World(), []
    assert world.all_reduce_sum([1.5, 2]) == [1.5, 2]
    assert world.all_gather("one") == ["one"]
    assert world.broadcast("one") == "one"
    with world.main_first():
        turns.append("mine")
    assert turns == ["mine"]
    with pytest.raises(KeyError), world.fail_together():
        raise KeyError


def test_a_share_with_nothing_to_predict_still_has_a_gradient() -> None:
    """Where there are fewer rows than processes, all of them must take part in the exchange."""
    model = Spec(dim=8, heads=2, ffn_dim=16, layers=1).build(20)
    batch = collate([Example([5, 6, 2], [1, 7, 8, 2])], pad_id=0).shard(1, 2)
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1])
    loss = lm_head_loss(model, states, batch.target[:, 1:], batch.target_mask[:, 1:], 0.1)
    loss.backward()
    assert loss == 0
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


def test_two_adapt_what_one_adapts(recipe: Path, alone: Path, tmp_path: Path) -> None:
    """Most parameters have no gradient, and those that have are in groups of their own rates."""
    changes = (
        f"init={alone}",
        "adapter={rank: 2, on: [w_q]}",
        "training.freeze=[decoder.blocks.0]",
        "training.layer_lr_decay=0.5",
        "training.steps=3",
    )
    train(read_recipe(recipe, changes), tmp_path / "alone")
    ended(launched("train", recipe, *changes, "--run", tmp_path / "two"), code=0)
    assert_alike(tmp_path / "two", tmp_path / "alone")
    assert len(load_file(tmp_path / "two" / run_folder.WEIGHTS)) == 2 * 6


EXPERTS = "model.feed_forward={kind: moe, num_experts: 32, top_k: 1, balance_loss: 0, jitter: 0}"


def test_two_learn_what_one_learns_with_experts_that_only_one_of_them_asks(
    recipe: Path, tmp_path: Path
) -> None:
    changes = (EXPERTS, "model.layers=1", "training.steps=3", "training.evaluation.every=3")
    train(read_recipe(recipe, changes), tmp_path / "alone")
    for two, sharded in ((tmp_path / "whole", WHOLE), (tmp_path / "sharded", SHARDED)):
        ended(launched("train", recipe, *changes, sharded, "--run", two), code=0)
        assert_alike(two, tmp_path / "alone")
        assert assignments(two) == assignments(tmp_path / "alone")


def assignments(run: Path) -> list[int]:
    """How often words were given to experts, step by step."""
    return [each["assignments"] for each in metrics.read(run) if "norm" in each]


UNEVEN = (  # two of the five experts are the first process's, three the second's
    "model.feed_forward={kind: moe, num_experts: 5, top_k: 2, balance_loss: 0, jitter: 0, "
    "expert: gated}",
    "model.layers=1",
    "training.steps=5",
    "training.evaluation.every=5",
)


def test_two_to_whose_experts_words_travel_go_on_as_one_would(recipe: Path, tmp_path: Path) -> None:
    alone, two = tmp_path / "alone", tmp_path / "two"
    train(read_recipe(recipe, UNEVEN), alone)
    shutil.copytree(alone, two)
    shutil.rmtree(newest_first(two)[0])  # those steps are to be taken again
    ended(launched("resume", two, SPREAD), code=0)
    assert_alike(two, alone)
    assert_same_experts(newest_first(two)[0], newest_first(alone)[0])


def assert_same_experts(place: Path, other: Path) -> None:
    """In checkpoints that are alike: one file, of the same tensors."""
    assert {path.name for path in place.iterdir()} == {path.name for path in other.iterdir()}
    tensors, others = (load_file(each / TENSORS) for each in (place, other))
    assert {name: t.shape for name, t in tensors.items()} == {
        name: t.shape for name, t in others.items()
    }
    for name in tensors:
        if ".experts." in name:
            torch.testing.assert_close(tensors[name], others[name], rtol=0, atol=1e-5)
