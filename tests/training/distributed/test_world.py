"""Training in two processes: same results as in one, interchangeable checkpoints, joint exit."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
MODES = {"ddp": "training.fsdp=false", "fsdp": "training.fsdp=true"}
EXPERT_PARALLEL = "training.expert_parallel=true"
ENDLESS = (
    "training.steps=100000",
    "training.evaluation.every=100000",
    "training.checkpoint_every=3",
)
ADAPTER = (
    "adapter={rank: 2, on: [w_q]}",
    "training.freeze=[decoder.blocks.0]",
    "training.layer_lr_decay=0.5",
    "training.steps=3",
)
MANY_EXPERTS = (  # so many that some get tokens in one of the two processes only
    "model.feed_forward={kind: moe, num_experts: 32, top_k: 1, balance_loss: 0, jitter: 0}",
    "model.layers=1",
    "training.steps=3",
    "training.evaluation.every=3",
)
FIVE_EXPERTS = (  # two are in the first process, three in the second
    "model.feed_forward={kind: moe, num_experts: 5, top_k: 2, balance_loss: 0, jitter: 0, "
    "expert: gated}",
    "model.layers=1",
    "training.steps=5",
    "training.evaluation.every=5",
)
TIMEOUT = 600  # seconds; the machine may be busy


@pytest.fixture(scope="module")
def recipe(tiny: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe without dropout, whose masks depend on the rank; all else must be the same."""
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


@dataclass(frozen=True)
class OneProcess:
    """Runs that one process has trained, the references of all comparisons."""

    base: Path
    longer: Path
    adapter: Path
    many_experts: Path
    five_experts: Path


@pytest.fixture(scope="module")
def one_process(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> OneProcess:
    folder = tmp_path_factory.mktemp("one-process")
    base = folder / "base"
    train(read_recipe(recipe), base)
    for name, overrides in (
        ("adapter", (f"init={base}", *ADAPTER)),
        ("many-experts", MANY_EXPERTS),
        ("five-experts", FIVE_EXPERTS),
    ):
        train(read_recipe(recipe, overrides), folder / name)
    return OneProcess(
        base,
        resume_copy(base, folder / "longer", LONGER),
        folder / "adapter",
        folder / "many-experts",
        folder / "five-experts",
    )


@dataclass(frozen=True)
class TwoProcesses:
    """Runs that two processes have trained, by name, all in one launch of torchrun."""

    folder: Path

    def run(self, name: str) -> Path:
        """Return the folder of a run whose command has succeeded."""
        outcomes = self.outcomes(name)
        assert [outcome["code"] for outcome in outcomes] == [0, 0], outcomes
        return self.folder / name

    def outcomes(self, name: str) -> list[dict[str, Any]]:
        """Return exit code and standard error of a command, by rank."""
        paths = (self.folder / f"{name}-{rank}.json" for rank in range(2))
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture(scope="module")
def two_processes(
    recipe: Path, one_process: OneProcess, tmp_path_factory: pytest.TempPathFactory
) -> TwoProcesses:
    folder = tmp_path_factory.mktemp("two-processes")
    commands: dict[str, list[str]] = {}

    def add_training(name: str, *overrides: str) -> None:
        commands[name] = ["train", str(recipe), *overrides, "--run", str(folder / name)]

    for mode, setting in MODES.items():
        add_training(mode, setting)
        add_training(f"many-experts-{mode}", *MANY_EXPERTS, setting)
        run = shutil.copytree(one_process.base, folder / f"resumed-{mode}")
        commands[f"resumed-{mode}"] = ["resume", str(run), LONGER, setting]
    add_training("adapter", f"init={one_process.base}", *ADAPTER)
    run = shutil.copytree(one_process.five_experts, folder / "expert-parallel")
    shutil.rmtree(newest_first(Path(run))[0])  # its steps are to be computed again
    commands["expert-parallel"] = ["resume", str(run), EXPERT_PARALLEL]

    (folder / "commands.json").write_text(json.dumps(commands))
    script = Path(__file__).with_name("commands.py")
    finish(torchrun(script, folder / "commands.json", folder), code=0)
    return TwoProcesses(folder)


def torchrun(*arguments: object) -> subprocess.Popen[str]:
    """Start two processes."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", *launcher, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], code: int) -> list[str]:
    """Wait for the exit code and return the messages of regard."""
    stderr = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == code, stderr
    return messages(stderr)


def messages(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("regard: ")]


def resume_copy(run: Path, copy: Path, *overrides: str) -> Path:
    """Copy a run and train the copy further in one process."""
    shutil.copytree(run, copy)
    resume(copy, overrides)
    return copy


def losses(run: Path) -> list[float]:
    """Return the loss of every step and of every evaluation."""
    return [
        event["loss"] if "loss" in event else event["scores"]["loss"] for event in metrics.read(run)
    ]


def grad_norms(run: Path) -> list[float]:
    """Return gradient norms: these optimizers update alike for a gradient twice as long."""
    return [event["grad_norm"] for event in metrics.read(run) if "grad_norm" in event]


def assert_same_training(run: Path, reference: Path) -> None:
    assert losses(run) == pytest.approx(losses(reference), abs=1e-4)
    assert grad_norms(run)
    assert grad_norms(run) == pytest.approx(grad_norms(reference), rel=1e-3)
    weights, expected = (
        load_file(run_folder.path_of(folder, run_folder.WEIGHTS)) for folder in (run, reference)
    )
    assert weights.keys() == expected.keys()
    difference = sum((weights[name] - expected[name]).square().sum() for name in weights)
    assert difference < 1e-6 * sum(weight.square().sum() for weight in weights.values())


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_train_the_model_of_one(
    one_process: OneProcess, two_processes: TwoProcesses, mode: str
) -> None:
    run, reference = two_processes.run(mode), one_process.base
    assert losses(reference)[0] - losses(reference)[-1] > 0.3, "the loss must fall for this test"
    assert_same_training(run, reference)
    assert file_names(run) == file_names(reference)


def file_names(run: Path) -> set[str]:
    """Return the names of the files in a run folder, without the checksums in them."""
    return {re.sub("-[0-9a-f]{12}", "", path.name) for path in run.iterdir()}


@pytest.mark.parametrize("mode", MODES)
def test_checkpoints_of_two_processes_contain_no_pickles(
    two_processes: TwoProcesses, mode: str
) -> None:
    checkpoints = newest_first(two_processes.run(mode))
    suffixes = {path.suffix for checkpoint in checkpoints for path in checkpoint.iterdir()}
    assert suffixes == {".safetensors", ".json"}


@pytest.mark.parametrize("mode", MODES)
def test_one_process_resumes_a_run_of_two(
    one_process: OneProcess, two_processes: TwoProcesses, tmp_path: Path, mode: str
) -> None:
    run = resume_copy(two_processes.run(mode), tmp_path / "run", LONGER)
    assert_same_training(run, one_process.longer)


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_resume_a_run_of_one(
    one_process: OneProcess, two_processes: TwoProcesses, mode: str
) -> None:
    assert_same_training(two_processes.run(f"resumed-{mode}"), one_process.longer)


def test_two_processes_train_the_adapter_of_one(
    one_process: OneProcess, two_processes: TwoProcesses
) -> None:
    """Most parameters have no gradient; the others have learning rates of their own."""
    run = two_processes.run("adapter")
    assert_same_training(run, one_process.adapter)
    assert len(load_file(run_folder.path_of(run, run_folder.WEIGHTS))) == 2 * 6


@pytest.mark.parametrize("mode", MODES)
def test_experts_without_tokens_in_one_process_train_as_in_one(
    one_process: OneProcess, two_processes: TwoProcesses, mode: str
) -> None:
    run = two_processes.run(f"many-experts-{mode}")
    assert_same_training(run, one_process.many_experts)
    assert assignments(run)
    assert assignments(run) == assignments(one_process.many_experts)


def assignments(run: Path) -> list[int]:
    """Return the number of assignments of tokens to experts at each step."""
    return [event["assignments"] for event in metrics.read(run) if "grad_norm" in event]


def test_expert_parallel_processes_resume_a_run_of_one(
    one_process: OneProcess, two_processes: TwoProcesses
) -> None:
    run, reference = two_processes.run("expert-parallel"), one_process.five_experts
    assert_same_training(run, reference)
    assert_same_experts(newest_first(run)[0], newest_first(reference)[0])


def assert_same_experts(checkpoint: Path, reference: Path) -> None:
    """Compare two checkpoints: the same files, the same tensors, equal experts."""
    assert {path.name for path in checkpoint.iterdir()} == {
        path.name for path in reference.iterdir()
    }
    tensors, expected = (load_file(folder / TENSORS) for folder in (checkpoint, reference))
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        name: tensor.shape for name, tensor in expected.items()
    }
    for name in tensors:
        if ".experts." in name:
            torch.testing.assert_close(tensors[name], expected[name], rtol=0, atol=1e-5)


def wait_for(checkpoint: str, run: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not (run / "checkpoints" / checkpoint).exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_resumable(run: Path, reference: Path) -> None:
    """Resume in one process; the losses must be those of an uninterrupted run."""
    step = int(newest_first(run)[0].name.removeprefix("step-"))
    resume(run, (f"training.steps={step + 1}",))
    resumed, expected = (
        [event["loss"] for event in metrics.read(folder) if "loss" in event]
        for folder in (run, reference)
    )
    assert len(resumed) == step + 1
    common = min(step + 1, STEPS)
    assert resumed[:common] == pytest.approx(expected[:common], abs=1e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process ids from /proc")
def test_a_killed_process_ends_the_run_and_leaves_its_checkpoints(
    recipe: Path, one_process: OneProcess, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    arguments = ("train", recipe, *ENDLESS, MODES["fsdp"], "--run", run)
    process = torchrun("-m", "--", "regard", *arguments)
    wait_for("step-000006", run, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    (message,) = finish(process, code=1)
    assert "another process of this run ended" in message
    assert "regard resume" in message
    assert_resumable(run, one_process.base)


@pytest.mark.parametrize(("number", "mode"), [(signal.SIGTERM, "ddp"), (signal.SIGINT, "fsdp")])
def test_a_signal_to_torchrun_saves_a_checkpoint(
    recipe: Path, one_process: OneProcess, tmp_path: Path, number: signal.Signals, mode: str
) -> None:
    run = tmp_path / "run"
    arguments = ("train", recipe, *ENDLESS, MODES[mode], "--run", run)
    process = torchrun("-m", "--", "regard", *arguments)
    wait_for("step-000003", run, process)
    process.send_signal(number)
    (message,) = finish(process, code=1)
    step = int(newest_first(run)[0].name.removeprefix("step-"))
    assert f"stopped at step {step}, saved: `regard resume" in message
    assert_resumable(run, one_process.base)


def test_frozen_pretrained_embeddings_with_fsdp_are_refused(
    tiny: MakeRecipe, tmp_path: Path
) -> None:
    recipe = tiny(MODES["fsdp"], "pretrained_embeddings={path: some.txt, frozen: true}")
    with pytest.raises(ConfigError, match=r"pretrained_embeddings\.frozen.*training\.fsdp"):
        train(recipe, tmp_path / "run")


def test_collective_operations_of_one_process_return_their_argument() -> None:
    world, executed = World(), []
    assert world.all_reduce_sum([1.5, 2]) == [1.5, 2]
    assert world.all_gather("one") == ["one"]
    assert world.broadcast("one") == "one"
    with world.main_first():
        executed.append("main")
    assert executed == ["main"]
    with pytest.raises(KeyError), world.fail_together():
        raise KeyError


def test_an_empty_shard_has_zero_gradients() -> None:
    """With fewer rows than processes, all processes must still take part in the all-reduce."""
    model = Spec(dim=8, heads=2, ffn_dim=16, layers=1).build(20)
    batch = collate([Example([5, 6, 2], [1, 7, 8, 2])], pad_id=0).shard(1, 2)
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1])
    loss = lm_head_loss(model, states, batch.target[:, 1:], batch.target_mask[:, 1:], 0.1)
    loss.backward()
    assert loss == 0
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()
