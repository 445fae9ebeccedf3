"""A run folder holds a whole model whatever happens while a longer or a new one is written."""

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard import run_folder
from regard.errors import OutputError, RunError
from regard.loading import load
from regard.training import run_files
from regard.training.init.merge_adapter import merge
from regard.training.recipe import Recipe
from regard.training.trainer import resume, train

from ..crash import crashes
from ..test_run_lock import hold

MakeRecipe = Callable[..., Recipe]

DOCUMENTS = ("recipe.yaml", "README.md", "ledger.json", "loss.svg")


@pytest.fixture(scope="module")
def two_steps(tiny: MakeRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests change a copy of it."""
    folder = tmp_path_factory.mktemp("runs") / "two-steps"
    train(tiny("training.steps=2", "training.evaluation.select=last"), folder)
    return folder


@pytest.fixture
def run(two_steps: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two_steps, tmp_path / "run"))


def weights(run: Path) -> bytes:
    run_folder.read(run)  # verifies all checksums
    return run_folder.path_of(run, run_folder.WEIGHTS).read_bytes()


def documents(run: Path) -> list[bytes]:
    return [(run / name).read_bytes() for name in DOCUMENTS]


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_crash_while_a_longer_run_ends_loses_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every operation: the old or the new model with its documents, and resume ends alike."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # slow, and without effect on the test
    old, old_documents = weights(run), documents(run)
    copies: list[Path] = []
    write_run = run_files.write_run

    def crash_everywhere(*arguments: Any) -> None:
        *others, folder, trainable = arguments
        (run / ".lock").unlink()  # it is this process's, and the copies are not locked
        crashed = True
        while crashed:
            copy = Path(shutil.copytree(folder, tmp_path / f"copy-{len(copies)}"))
            write = functools.partial(write_run, *others, copy, trainable)
            crashed = crashes(len(copies), write)
            copies.append(copy)
        write_run(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(run_files, "write_run", crash_everywhere)
        resume(run, ["training.steps=3"])
    new = weights(run)
    assert new != old
    assert len(copies) > 25
    found = [weights(copy) for copy in copies]
    first = found.index(new)
    assert found == [old] * first + [new] * (len(copies) - first)
    # Some of them to the end: those around the commit, and the first and the last.
    for number in sorted({0, 1, first - 1, first, first + 1, len(copies) - 2}):
        if number < first:
            assert documents(copies[number]) == old_documents
            resume(copies[number])
        else:
            with pytest.raises(RunError, match="finished at step 3"):
                resume(copies[number])
        assert weights(copies[number]) == new
        assert documents(copies[number])[0] == documents(run)[0]
        assert "3\nsteps" in (copies[number] / "README.md").read_text()
        assert not [path for path in copies[number].iterdir() if path.name.startswith(".")]


def test_a_damaged_model_does_not_prevent_resuming(run: Path, two_steps: Path) -> None:
    run_folder.path_of(run, run_folder.WEIGHTS).write_bytes(b"damaged")
    resume(run)
    assert weights(run) == weights(two_steps)


def test_an_overwritten_model_stays_until_the_new_one_is_written(
    tiny: MakeRecipe, run: Path
) -> None:
    old, old_documents = weights(run), documents(run)

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    recipe = tiny("training.steps=2", "training.seed=7")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "write", fail)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, run, overwrite=True)
    assert weights(run) == old
    assert documents(run) == old_documents
    assert load(run) is not None
    resume(run)  # continues the new run, not the old one
    assert weights(run) != old
    assert "seed: 7" in (run / "recipe.yaml").read_text()


def test_a_run_that_another_process_writes_is_left_alone(
    tiny: MakeRecipe, run: Path, tmp_path: Path
) -> None:
    from regard.insight.heads import prune
    from regard.interchange.importing import import_model

    process = hold(run)
    before = content(run)
    try:
        for write in (
            lambda: train(tiny(), run, overwrite=True),
            lambda: resume(run, ["training.steps=3"]),
            lambda: merge(tmp_path / "adapter", run, overwrite=True),
            lambda: prune(tmp_path / "other", run, ["decoder.1.1"], overwrite=True),
            lambda: import_model(tmp_path / "theirs", run, overwrite=True),
            lambda: run_folder.write(run_folder.read(run), run),
        ):
            with pytest.raises(OutputError, match=f"run: process {process.pid} on .* wait until"):
                write()
        assert content(run) == before
    finally:
        process.kill()
        process.communicate()
    resume(run, ["training.steps=3"])
    assert not (run / ".lock").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 3}', "prepared: field required"),
        ('{"format": 3, "prepared": 7}', "prepared: input should be a valid string"),
        ('{"format": "x", "prepared": "a"}', "format: input should be a valid integer"),
        ("[" * 5000, "nested too deeply"),
        ("", "not valid JSON"),
    ],
)
def test_a_damaged_start_is_one_sentence(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / run_files.START).write_text(content)
    with pytest.raises(RunError, match=message) as error:
        run_files.read_start(tmp_path)
    assert str(error.value).startswith(str(tmp_path / run_files.START))
