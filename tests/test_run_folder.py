"""Run folders: whole, checked, and named when they are not."""

import functools
import hashlib
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard import run_commit, run_folder
from regard.atomic import write_atomic
from regard.errors import OutputError, RunError
from regard.models.base import ModelSpec
from regard.models.weights import set_weights, weights_of

from .crash import crashes


def a_run(value: float = 1.0) -> run_folder.Run:
    return run_folder.Run(
        task="language-model",
        model={"kind": "language-model"},
        vocabulary=10,
        details={"scores": {}},
        weights={"a": torch.full((2, 3), value)},
        tokenizer="{}",
        extra_files={"languages.json": "{}"},
        documents={"recipe.yaml": "a: 1\n", "README.md": "# é\n"},
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    run_folder.write(a_run(), tmp_path / "run")
    read = run_folder.read(tmp_path / "run")
    assert read.extra_files == a_run().extra_files
    assert (tmp_path / "run" / "README.md").read_text(encoding="utf-8") == "# é\n"
    assert torch.equal(read.weights["a"], a_run().weights["a"])
    assert (read.task, read.model, read.vocabulary) == ("language-model", a_run().model, 10)
    assert run_folder.exists(tmp_path / "run")
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_a_run_can_be_replaced(tmp_path: Path) -> None:
    run_folder.write(a_run(1.0), tmp_path)
    run_folder.write(a_run(2.0), tmp_path)
    assert run_folder.read(tmp_path).weights["a"][0, 0] == 2.0
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_a_run_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder.write(a_run(1.0), tmp_path)
    read_manifest = run_folder._read_manifest

    def replaced_after(folder: Path) -> object:
        content = read_manifest(folder)
        monkeypatch.undo()
        run_folder.write(a_run(2.0), folder)
        return content

    monkeypatch.setattr(run_folder, "_read_manifest", replaced_after)
    assert run_folder.read(tmp_path).weights["a"][0, 0] == 2.0


def test_names_of_files_contain_their_checksum(tmp_path: Path) -> None:
    run_folder.write(a_run(), tmp_path)
    for name, checksum in json.loads((tmp_path / "model.json").read_text())["sha256"].items():
        path = run_folder.path_of(tmp_path, name)
        assert path.name == f"{Path(name).stem}-{checksum[:12]}{Path(name).suffix}"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == checksum


def test_a_folder_with_plain_names_is_read_and_replaced(tmp_path: Path) -> None:
    run_folder.write(a_run(1.0), tmp_path)
    use_plain_names(tmp_path)
    assert run_folder.path_of(tmp_path, run_folder.WEIGHTS) == tmp_path / "model.safetensors"
    assert run_folder.read(tmp_path).weights["a"][0, 0] == 1.0
    run_folder.write(a_run(2.0), tmp_path)
    assert run_folder.read(tmp_path).weights["a"][0, 0] == 2.0
    assert not (tmp_path / "model.safetensors").exists()


def test_files_of_a_training_are_removed_with_its_model(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for name in ("training.json", "metrics.jsonl", "checkpoints/state", "notes.txt"):
        (tmp_path / name).touch()
    run_folder.write(replace(a_run(), documents={"loss.svg": "", "README.md": ""}), tmp_path, True)
    assert (tmp_path / "checkpoints" / "state").exists()
    assert (tmp_path / "loss.svg").exists()
    run_folder.write(replace(a_run(), documents={"README.md": "new"}), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert not names & {"checkpoints", "training.json", "metrics.jsonl", "loss.svg"}
    assert {"notes.txt", "README.md", "model.json"} < names


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("plain_names", [False, True])
def test_a_crash_at_any_operation_leaves_a_whole_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_names: bool
) -> None:
    """The old model or the new one; then writing succeeds, and nothing is left over."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # slow, and without effect on the test
    old = replace(a_run(1.0), documents={"README.md": "old", "bleu.svg": "old"})
    new = replace(a_run(2.0), documents={"README.md": "new", "loss.svg": "new"})
    committed = False
    for number in itertools.count():
        folder = tmp_path / f"{number}"
        run_folder.write(old, folder)
        if plain_names:
            use_plain_names(folder)
        crashed = crashes(number, functools.partial(run_folder.write, new, folder))
        value = run_folder.read(folder).weights["a"][0, 0]
        assert value == 2.0 or not committed  # once committed, always committed
        committed = value == 2.0
        with run_folder.writing(folder):  # as the next process does
            pass
        assert documents(folder) == (
            {"README.md": "new", "loss.svg": "new"}
            if committed
            else {"README.md": "old", "bleu.svg": "old"}
        )
        assert run_folder.read(folder).weights["a"][0, 0] == value
        assert len(list(folder.iterdir())) == 6
        run_folder.write(new, folder)
        assert run_folder.read(folder).weights["a"][0, 0] == 2.0
        assert len(list(folder.iterdir())) == 6
        if not crashed:
            break
    assert number > 20
    assert committed


def documents(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir() if p.suffix in (".md", ".svg")}


def use_plain_names(folder: Path) -> None:
    """Turn a run folder into one of format 2."""
    manifest = json.loads((folder / "model.json").read_text())
    for name in manifest["sha256"]:
        run_folder.path_of(folder, name).rename(folder / name)
    (folder / "model.json").write_text(json.dumps({**manifest, "format": 2}))


def test_a_plan_cannot_remove_files_elsewhere(tmp_path: Path) -> None:
    run_folder.write(a_run(), tmp_path / "run")
    (tmp_path / "precious").touch()
    stage = tmp_path / "run" / ".commit-0"
    stage.mkdir()
    checksum = hashlib.sha256((tmp_path / "run" / "model.json").read_bytes()).hexdigest()
    plan = {"manifest": checksum, "added": [], "documents": [], "obsolete": ["../precious"]}
    (stage / "plan.json").write_text(json.dumps(plan))
    run_commit.recover(tmp_path / "run")
    assert (tmp_path / "precious").exists()
    assert not stage.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "languages.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    run_folder.write(a_run(), tmp_path)
    path = run_folder.path_of(tmp_path, name)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RunError, match=f"{path.name}: does not match its checksum"):
        run_folder.read(tmp_path)
    path.unlink()
    with pytest.raises(RunError, match=f"{path.name}: cannot be read"):
        run_folder.read(tmp_path)


def test_documents_may_be_edited(tmp_path: Path) -> None:
    run_folder.write(a_run(), tmp_path)
    (tmp_path / "README.md").write_text("my notes")
    (tmp_path / "recipe.yaml").unlink()
    assert run_folder.read(tmp_path).task == "language-model"


def test_what_is_not_a_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no such run folder"):
        run_folder.read(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"there is no model\.json in it"):
        run_folder.read(tmp_path)
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(RunError, match=r"model\.json: not valid JSON"):
        run_folder.read(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(RunError, match=r"made by a newer version of Regard; update Regard\.$"):
        run_folder.read(tmp_path)
    for version in (0, "2", None):
        (tmp_path / "model.json").write_text(json.dumps({"format": version}))
        with pytest.raises(RunError, match=f"format {version!r} is not one that this version"):
            run_folder.read(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"format": run_folder.FORMAT}))
    with pytest.raises(RunError, match=r"model\.json: task: field required"):
        run_folder.read(tmp_path)


def test_a_path_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    run_folder.write(a_run(), tmp_path / "run")
    description = json.loads((tmp_path / "run" / "model.json").read_text())
    description["sha256"]["../secret"] = "0"
    (tmp_path / "run" / "model.json").write_text(json.dumps(description))
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(RunError, match=r"'\.\./secret-0' is not a file of this folder"):
        run_folder.read(tmp_path / "run")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("before")
    write_atomic(target, b"after")
    assert target.read_text() == "after"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="folder: cannot be written"):
        write_atomic(tmp_path / "folder", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "page.html"]


def test_weights_go_out_and_in_and_shared_ones_are_kept_once() -> None:
    spec = ModelSpec.model_validate({"kind": "encoder-decoder", "size": "tiny"})
    one, other = spec.build(20), spec.build(20)
    weights = weights_of(one)
    assert sum("tokens" in name or "output" in name for name in weights) == 1
    set_weights(other, weights, "here")
    for name, parameter in other.named_parameters():
        assert torch.equal(parameter, weights[name])
    smaller = ModelSpec.model_validate({"kind": "encoder-decoder", "size": "tiny"}).build(19)
    with pytest.raises(RunError, match=r"here: .*tokens\.weight has shape \(20, 128\)"):
        set_weights(smaller, weights, "here")
    with pytest.raises(
        RunError, match=r"here: the weights are not those of this model: .* is missing"
    ):
        set_weights(other, {}, "here")
