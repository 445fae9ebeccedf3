"""Run folders: whole, checked, and named when they are not."""

import json
from pathlib import Path

import pytest
import torch

from regard import run_folder
from regard.atomic import write_atomic
from regard.errors import OutputError, RunError
from regard.models.base import ModelSpec
from regard.models.weights import set_weights, weights_of


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


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "languages.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    run_folder.write(a_run(), tmp_path)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:-1])
    with pytest.raises(RunError, match=f"{name}: does not match its checksum"):
        run_folder.read(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(RunError, match=f"{name}: cannot be read"):
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
    with pytest.raises(RunError, match=r"model\.json: cannot be read"):
        run_folder.read(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(RunError, match=r"made by a newer version of Regard; update Regard\.$"):
        run_folder.read(tmp_path)
    for version in (0, "2", None):
        (tmp_path / "model.json").write_text(json.dumps({"format": version}))
        with pytest.raises(RunError, match=f"format {version!r} is not one that this version"):
            run_folder.read(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"format": run_folder.FORMAT}))
    with pytest.raises(RunError, match="damaged, or not written by Regard"):
        run_folder.read(tmp_path)


def test_a_path_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    run_folder.write(a_run(), tmp_path / "run")
    description = json.loads((tmp_path / "run" / "model.json").read_text())
    description["sha256"]["../secret"] = "0"
    (tmp_path / "run" / "model.json").write_text(json.dumps(description))
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(RunError, match=r"'\.\./secret' is not a file of this folder"):
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


def test_a_folder_that_cannot_be_written_is_said_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        run_folder.ensure_writable(tmp_path / "file" / "run")


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
