"""Going on: whatever cut a run off, it ends bit by bit as if nothing had."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

STEPS = 40
NAMES = ["model.safetensors", "tokenizer.json", "languages.json"]


def made_of(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in NAMES]


def told(run: Path) -> list[tuple[int, object]]:
    """What the run says of itself, but for the time."""
    return [(each["step"], each.get("loss", each.get("scores"))) for each in metrics.read(run)]


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def sent(number: signal.Signals, to: subprocess.Popen[str], run: Path, when: Moment) -> str:
    """Send a signal when the moment has come; what the process said until it ended."""
    while not when(run) and to.poll() is None:
        time.sleep(0.0005)
    to.send_signal(number)
    return to.communicate(timeout=120)[1]


def saving(run: Path) -> bool:
    """A checkpoint is half written; or, where that was missed to the end, almost all is done."""
    return any((run / "checkpoints").glob(".step-*.partial")) or after(STEPS - 5)(run)


def after(step: int, seconds: float = 0.0) -> Moment:
    def come(run: Path) -> bool:
        lines = metrics.read(run)
        if not lines or lines[-1]["step"] < step:
            return False
        time.sleep(seconds)
        return True

    return come


def sometime(seed: int) -> Moment:
    chance = random.Random(seed)
    return after(chance.randrange(8, 25), chance.random() / 20)


VARIANTS = {
    "muon, averaged, two batches a step": (
        ["training.ema_decay=0.9", "training.grad_accumulation=2", "training.optimizer=muon"],
        [saving, sometime(1)],
    ),
    "adamw": (["training.optimizer=adamw", "training.schedule=cosine"], [sometime(2)]),
    "large batches, a core its own rows": (["training.batch_tokens=3200"], [sometime(3)]),
}


@pytest.mark.parametrize(("changes", "moments"), VARIANTS.values(), ids=VARIANTS.keys())
def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(
    tiny: MakeRecipe, tmp_path: Path, changes: list[str], moments: list[Moment]
) -> None:
    recipe, run = tiny(*changes), tmp_path / "run"
    train(recipe, tmp_path / "whole")
    (tmp_path / "recipe.yaml").write_text(write_yaml(recipe))
    arguments: list[object] = ["train", tmp_path / "recipe.yaml", "--run", run]
    for moment in moments:
        process = started(*arguments)
        sent(signal.SIGKILL, process, run, moment)
        assert process.returncode == -signal.SIGKILL
        assert not run_folder.exists(run)
        arguments = ["resume", run]
    resume(run)
    assert made_of(run) == made_of(tmp_path / "whole")
    assert told(run) == told(tmp_path / "whole")
    assert not list((run / "checkpoints").glob(".*"))
    if "training.batch_tokens=3200" in changes:
        assert max(line.get("tokens", 0) for line in metrics.read(run)) >= 2 * TOKENS_PER_WORKER


@pytest.fixture(scope="module")
def whole(tiny: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing has cut off."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(tiny(), folder)
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_says_how_to_go_on(
    tiny: MakeRecipe, whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run, recipe = tmp_path / "run", tiny("training.checkpoint_every=1000")
    (tmp_path / "recipe.yaml").write_text(write_yaml(recipe))
    process = started("train", tmp_path / "recipe.yaml", "--run", run)
    said = sent(number, process, run, after(3))
    assert process.returncode == 130
    assert f"`regard resume {run}`" in " ".join(said.split())
    assert "Traceback" not in said
    (last,) = (run / "checkpoints").iterdir()
    assert last.name == f"step-{metrics.read(run)[-1]['step']:06d}"
    resume(run)
    assert made_of(run) == made_of(whole)
    assert told(run) == told(whole)


@contextmanager
def impatient() -> Iterator[Interruption]:
    """Somebody asks to stop as soon as training begins."""
    interruption = Interruption()
    interruption.requested = True
    yield interruption


def cut_off(recipe: Recipe, run: Path) -> None:
    """Leave a run that has made one step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "catch_interrupts", impatient)
        with pytest.raises(Interrupted, match=f"stopped at step 1, saved: `regard resume {run}`"):
            train(recipe, run)


def test_an_unfinished_run_is_not_begun_anew_by_mistake(tiny: MakeRecipe, tmp_path: Path) -> None:
    recipe, run = tiny("training.steps=3"), tmp_path / "run"
    cut_off(recipe, run)
    before = sorted(run.rglob("*"))
    with pytest.raises(OutputError, match=f"unfinished run.*`regard resume {run}`.*--overwrite"):
        train(recipe, run)
    assert sorted(run.rglob("*")) == before
    train(recipe, run, overwrite=True)
    train(recipe, tmp_path / "whole")
    assert made_of(run) == made_of(tmp_path / "whole")
    assert told(run) == told(tmp_path / "whole")


def test_killed_before_its_first_checkpoint_it_begins_again(
    tiny: MakeRecipe, tmp_path: Path
) -> None:
    recipe, run = tiny("training.steps=3"), tmp_path / "run"
    cut_off(recipe, run)
    for file in (run / "checkpoints" / "step-000001").iterdir():
        file.unlink()
    resume(run)
    train(recipe, tmp_path / "whole")
    assert made_of(run) == made_of(tmp_path / "whole")
    assert told(run) == told(tmp_path / "whole")


def test_a_finished_run_says_so_and_how_to_train_longer(
    tiny: MakeRecipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from regard.cli import main

    run = tmp_path / "run"
    train(tiny("training.steps=4"), run)
    before = made_of(run)
    monkeypatch.setattr(sys, "argv", ["regard", "resume", str(run)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert f"{run}: finished at step 4 (all 4 steps are done)" in said
    assert f"`regard resume {run} training.steps=…`" in said
    assert made_of(run) == before
    resume(run, ["training.steps=6", "training.evaluation.select=last"])
    assert made_of(run) != before
    assert run_folder.read(run).details["training"]["step"] == 6
    assert "steps: 6" in (run / "recipe.yaml").read_text()
    assert [step for step, what in told(run) if isinstance(what, float)] == [1, 2, 3, 4, 5, 6]


def test_made_longer_and_cut_off_at_its_very_end_it_is_not_taken_for_finished(
    tiny: MakeRecipe, tmp_path: Path
) -> None:
    """The model of the shorter run is still there."""
    run = tmp_path / "run"
    train(tiny("training.steps=2"), run)

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            resume(run, ["training.steps=3"])
    assert run_folder.read(run).details["training"]["step"] == 2
    resume(run)
    assert run_folder.read(run).details["training"]["step"] == 3
    with pytest.raises(RunError, match="finished at step 3"):
        resume(run)


def test_with_other_data_it_does_not_go_on(tiny: MakeRecipe, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"le chat {n}\tthe cat {n}\n" for n in range(60)))
    source = f"{{kind: tsv, path: {pairs}, languages: [fr, en]}}"
    run = tmp_path / "run"
    cut_off(tiny(f"data.train={source}", "data.dev=null"), run)
    pairs.write_text(pairs.read_text().replace("chat 7", "chien 7"))
    with pytest.raises(
        RunError, match=f"{run}: its data .* have changed since it began.*--overwrite"
    ):
        resume(run)
    pairs.write_text(pairs.read_text().replace("chien 7", "chat 7"))
    resume(run, ["training.steps=2"])
    assert run_folder.read(run).details["training"]["step"] == 2


def test_another_model_or_optimizer_does_not_go_on(tiny: MakeRecipe, tmp_path: Path) -> None:
    run = tmp_path / "run"
    cut_off(tiny(), run)
    recipe = (run / "recipe.yaml").read_text()
    for change in ("model.dim=48", "model.layers=1", "training.optimizer=adamw"):
        with pytest.raises(RunError, match="step-000001: "):
            resume(run, [change])
    assert (run / "recipe.yaml").read_text() == recipe


def test_batches_of_another_size_may_follow(tiny: MakeRecipe, tmp_path: Path) -> None:
    run = tmp_path / "run"
    cut_off(tiny(), run)
    resume(run, ["training.steps=2", "training.batch_tokens=4000"])
    assert run_folder.read(run).details["training"]["step"] == 2


@pytest.mark.parametrize("missing", ["recipe.yaml", "training.json"])
def test_where_nothing_began_nothing_can_go_on(
    tiny: MakeRecipe, tmp_path: Path, missing: str
) -> None:
    with pytest.raises(RunError, match="nothing to resume"):
        resume(tmp_path / "nowhere")
    cut_off(tiny(), tmp_path / "run")
    (tmp_path / "run" / missing).unlink()
    with pytest.raises(RunError, match=f"there is no {missing} in it"):
        resume(tmp_path / "run")
