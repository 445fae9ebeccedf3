"""Resuming: however a run was interrupted, it ends bit-identical to an uninterrupted one."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard import run_folder
from regard.config import write_yaml
from regard.errors import Interrupted, OutputError, RunError
from regard.training import trainer as module
from regard.training.recipe import Recipe
from regard.training.reporting import metrics
from regard.training.signals import Interruption
from regard.training.thread_parallel import TOKENS_PER_WORKER
from regard.training.trainer import resume, train

MakeRecipe = Callable[..., Recipe]
Moment = Callable[[Path], bool]

STEPS = 24
SHORT = (f"training.steps={STEPS}", "training.evaluation.every=12")
TIMEOUT = 120
NAMES = ["model.safetensors", "tokenizer.json", "languages.json"]


def model_files(run: Path) -> list[bytes]:
    return [run_folder.path_of(run, name).read_bytes() for name in NAMES]


def history(run: Path) -> list[tuple[int, object]]:
    """Return step and loss or scores of every event in metrics.jsonl, without the times."""
    return [(event["step"], event.get("loss", event.get("scores"))) for event in metrics.read(run)]


@dataclass(frozen=True)
class Process:
    """A process that runs one `regard` command; see fork_server.py for its files."""

    folder: Path

    @property
    def ended(self) -> bool:
        return (self.folder / "code").exists()

    @property
    def code(self) -> int:
        deadline = time.monotonic() + TIMEOUT
        while not self.ended:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return int((self.folder / "code").read_text())

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def send(self, number: signal.Signals, run: Path, when: Moment) -> None:
        """Send a signal at a moment of the run; the process must be running until then."""
        while not (self.folder / "pid").exists():
            time.sleep(0.01)
        while not when(run):
            assert not self.ended, self.stderr
            time.sleep(0.0005)
        os.kill(int((self.folder / "pid").read_text()), number)


Start = Callable[..., Process]


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported regard and forks others."""
    script = Path(__file__).with_name("fork_server.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate()


@pytest.fixture
def start(server: subprocess.Popen[str], tmp_path: Path) -> Start:
    """Start `regard ARGUMENTS` in a process of its own."""

    def start_command(*arguments: object) -> Process:
        folder = tmp_path / f"process-{len(list(tmp_path.glob('process-*')))}"
        folder.mkdir()
        request = {"arguments": [*map(str, arguments)], "folder": str(folder)}
        assert server.stdin is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return Process(folder)

    return start_command


def saving(run: Path) -> bool:
    """True while a checkpoint is half written, or at the end if that was missed every time."""
    return any((run / "checkpoints").glob(".step-*.partial")) or after(STEPS - 5)(run)


def after(step: int, seconds: float = 0.0) -> Moment:
    def reached(run: Path) -> bool:
        events = metrics.read(run)
        if not events or events[-1]["step"] < step:
            return False
        time.sleep(seconds)
        return True

    return reached


def at_random(seed: int) -> Moment:
    rng = random.Random(seed)
    return after(rng.randrange(6, 16), rng.random() / 20)


VARIANTS = {
    "muon, EMA, gradient accumulation": (
        ["training.ema_decay=0.9", "training.grad_accumulation=2", "training.optimizer=muon"],
        [saving, at_random(1)],
    ),
    "adamw": (["training.optimizer=adamw", "training.schedule=cosine"], [at_random(2)]),
    "threaded backward": (["training.batch_tokens=3200"], [at_random(3)]),
}


@pytest.mark.parametrize(("changes", "moments"), VARIANTS.values(), ids=VARIANTS.keys())
def test_resume_after_kill_is_bit_identical(
    tiny: MakeRecipe, start: Start, tmp_path: Path, changes: list[str], moments: list[Moment]
) -> None:
    recipe, run = tiny(*SHORT, *changes), tmp_path / "run"
    train(recipe, tmp_path / "uninterrupted")
    (tmp_path / "recipe.yaml").write_text(write_yaml(recipe))
    arguments: list[object] = ["train", tmp_path / "recipe.yaml", "--run", run]
    for moment in moments:
        process = start(*arguments)
        process.send(signal.SIGKILL, run, moment)
        assert process.code == -signal.SIGKILL
        assert not run_folder.exists(run)
        arguments = ["resume", run]
    resume(run)
    assert_identical(run, tmp_path / "uninterrupted")
    assert not list((run / "checkpoints").glob(".*"))
    if "training.batch_tokens=3200" in changes:
        assert max(event.get("tokens", 0) for event in metrics.read(run)) >= 2 * TOKENS_PER_WORKER


def assert_identical(run: Path, other: Path) -> None:
    assert model_files(run) == model_files(other)
    assert history(run) == history(other)


@pytest.fixture(scope="module")
def uninterrupted(tiny: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "uninterrupted"
    train(tiny(*SHORT), folder)
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_and_names_the_resume_command(
    tiny: MakeRecipe, uninterrupted: Path, start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    run, recipe = tmp_path / "run", tiny(*SHORT, "training.checkpoint_every=1000")
    (tmp_path / "recipe.yaml").write_text(write_yaml(recipe))
    process = start("train", tmp_path / "recipe.yaml", "--run", run)
    process.send(number, run, after(3))
    assert process.code == 130
    assert f"`regard resume {run}`" in " ".join(process.stderr.split())
    assert "Traceback" not in process.stderr
    (last,) = (run / "checkpoints").iterdir()
    assert last.name == f"step-{metrics.read(run)[-1]['step']:06d}"
    resume(run)
    assert_identical(run, uninterrupted)


@contextmanager
def interrupted_at_once() -> Iterator[Interruption]:
    """Request an interruption as soon as training begins."""
    interruption = Interruption()
    interruption.requested = True
    yield interruption


def train_one_step(recipe: Recipe, run: Path) -> None:
    """Interrupt a run after its first step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "catch_interrupts", interrupted_at_once)
        with pytest.raises(Interrupted, match=f"stopped at step 1, saved: `regard resume {run}`"):
            train(recipe, run)


THREE_STEPS = "training.steps=3"


@pytest.fixture(scope="module")
def three_steps(tiny: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of three steps."""
    folder = tmp_path_factory.mktemp("runs") / "three-steps"
    train(tiny(THREE_STEPS), folder)
    return folder


@pytest.fixture(scope="module")
def one_step(tiny: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted after its first step; tests change a copy of it."""
    folder = tmp_path_factory.mktemp("runs") / "one-step"
    train_one_step(tiny(), folder)
    return folder


@pytest.fixture
def interrupted_run(one_step: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(one_step, tmp_path / "run"))


def test_an_unfinished_run_is_overwritten_only_on_request(
    tiny: MakeRecipe, three_steps: Path, tmp_path: Path
) -> None:
    recipe, run = tiny(THREE_STEPS), tmp_path / "run"
    train_one_step(recipe, run)
    before = sorted(run.rglob("*"))
    with pytest.raises(OutputError, match=f"unfinished run.*`regard resume {run}`.*--overwrite"):
        train(recipe, run)
    assert sorted(run.rglob("*")) == before
    train(recipe, run, overwrite=True)
    assert_identical(run, three_steps)


def test_resume_without_a_checkpoint_starts_over(
    tiny: MakeRecipe, three_steps: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train_one_step(tiny(THREE_STEPS), run)
    for file in (run / "checkpoints" / "step-000001").iterdir():
        file.unlink()
    resume(run)
    assert_identical(run, three_steps)


def test_resuming_a_finished_run_is_refused_unless_it_is_made_longer(
    tiny: MakeRecipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from regard.cli import main

    run = tmp_path / "run"
    train(tiny("training.steps=4"), run)
    before = model_files(run)
    monkeypatch.setattr(sys, "argv", ["regard", "resume", str(run)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    stderr = capsys.readouterr().err
    assert f"{run}: finished at step 4 (all 4 steps are done)" in stderr
    assert f"`regard resume {run} training.steps=…`" in stderr
    assert model_files(run) == before
    resume(run, ["training.steps=6", "training.evaluation.select=last"])
    assert model_files(run) != before
    assert run_folder.read(run).details["training"]["step"] == 6
    assert "steps: 6" in (run / "recipe.yaml").read_text()
    assert [step for step, value in history(run) if isinstance(value, float)] == [1, 2, 3, 4, 5, 6]


def test_a_longer_run_interrupted_before_its_model_is_written_is_unfinished(
    tiny: MakeRecipe, tmp_path: Path
) -> None:
    """The model of the shorter run is still there."""
    run = tmp_path / "run"
    train(tiny("training.steps=2"), run)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            resume(run, [THREE_STEPS])
    assert run_folder.read(run).details["training"]["step"] == 2
    resume(run)
    assert run_folder.read(run).details["training"]["step"] == 3
    with pytest.raises(RunError, match="finished at step 3"):
        resume(run)


def test_resume_with_changed_data_is_refused(tiny: MakeRecipe, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"le chat {n}\tthe cat {n}\n" for n in range(60)))
    source = f"{{kind: tsv, path: {pairs}, languages: [fr, en]}}"
    run = tmp_path / "run"
    train_one_step(tiny(f"data.train={source}", "data.dev=null"), run)
    pairs.write_text(pairs.read_text().replace("chat 7", "chien 7"))
    with pytest.raises(
        RunError, match=f"{run}: its data .* have changed since it began.*--overwrite"
    ):
        resume(run)
    pairs.write_text(pairs.read_text().replace("chien 7", "chat 7"))
    resume(run, ["training.steps=2"])
    assert run_folder.read(run).details["training"]["step"] == 2


def test_resume_with_moved_or_newly_prepared_data(
    tiny: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moved data and stores of another version are the same where their content is."""
    source = "{{kind: tsv, path: {}, languages: [fr, en]}}"
    pairs, moved = tmp_path / "pairs.tsv", tmp_path / "moved.tsv"
    pairs.write_text("".join(f"le chat {n}\tthe cat {n}\n" for n in range(60)))
    recipe = tiny(f"data.train={source.format(pairs)}", "data.dev=null", "training.steps=2")
    train(recipe, tmp_path / "uninterrupted")
    runs = [tmp_path / name for name in ("run", "new-version", "older-run")]
    train_one_step(recipe, runs[0])
    for copy in runs[1:]:
        shutil.copytree(runs[0], copy)
    pairs.rename(moved)
    resume(runs[0], [f"data.train={source.format(moved)}"])
    moved.rename(pairs)
    monkeypatch.setattr("tokenizers.__version__", "9.9.9")  # prepares the data again
    resume(runs[1])
    start = json.loads((runs[2] / "training.json").read_text())
    del start["content"]  # which older runs have not; their store is still there
    (runs[2] / "training.json").write_text(json.dumps(start))
    resume(runs[2])
    for run in runs:
        assert model_files(run) == model_files(tmp_path / "uninterrupted")


def test_resume_with_another_model_or_optimizer_is_refused(interrupted_run: Path) -> None:
    recipe = (interrupted_run / "recipe.yaml").read_text()
    for change in ("model.dim=48", "model.layers=1", "training.optimizer=adamw"):
        with pytest.raises(RunError, match="step-000001: "):
            resume(interrupted_run, [change])
    assert (interrupted_run / "recipe.yaml").read_text() == recipe


def test_resume_with_another_batch_size_is_allowed(interrupted_run: Path) -> None:
    resume(interrupted_run, ["training.steps=2", "training.batch_tokens=4000"])
    assert run_folder.read(interrupted_run).details["training"]["step"] == 2


@pytest.mark.parametrize("missing", ["recipe.yaml", "training.json"])
def test_resume_without_a_file_of_the_run_is_refused(
    interrupted_run: Path, tmp_path: Path, missing: str
) -> None:
    with pytest.raises(RunError, match="nothing to resume"):
        resume(tmp_path / "nowhere")
    (interrupted_run / missing).unlink()
    with pytest.raises(RunError, match=f"there is no {missing} in it"):
        resume(interrupted_run)
