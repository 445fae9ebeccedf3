"""Verification of an import: a model that computes something else is refused."""

import json
from pathlib import Path

import pytest

from regard.cli import main
from regard.errors import ConfigError, DataError
from regard.interchange import verify
from regard.interchange.folder import ModelFolder
from regard.interchange.importing import import_model
from regard.interchange.verify import largest_difference
from regard.models.base import ModelSpec
from regard.run_folder import read

from .conftest import byte_level, saved
from .test_importing import gpt2


@pytest.fixture
def theirs(folder: Path) -> Path:
    tokenizer = byte_level(["<|endoftext|>"])
    return saved(gpt2(tokenizer.get_vocab_size()), tokenizer, folder)


def test_changed_weights_are_noticed(theirs: Path, tmp_path: Path) -> None:
    assert import_model(theirs, tmp_path / "run", verify=True) < 1e-5
    run = read(tmp_path / "run")
    spec = ModelSpec.model_validate(run.model)
    weights = {name: tensor.clone() for name, tensor in run.weights.items()}
    weights["decoder.blocks.1.attention.w_v.weight"] *= 1.01
    folder = ModelFolder(theirs)
    with pytest.raises(DataError, match=r"computes something else.*differ by"):
        largest_difference(folder, "language-model", spec, run.vocabulary, weights)


def test_command_prints_the_difference(
    theirs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["regard", "import", str(theirs), "--run", str(tmp_path / "run"), "--verify"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    output = capsys.readouterr().out
    assert "differ from transformers by at most" in output
    assert f"The model is in {tmp_path / 'run'}." in " ".join(output.split())


def test_random_weights_of_transformers_are_no_reference(theirs: Path, tmp_path: Path) -> None:
    """transformers fills in a missing tensor with random numbers; Regard refuses it before."""
    config = json.loads((theirs / "config.json").read_text())
    (theirs / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    with pytest.raises(DataError, match=r"no lm_head\.weight"):
        import_model(theirs, tmp_path / "run", verify=True)
    with pytest.raises(DataError, match="nothing to compare with"):
        verify._load(theirs, "language-model")


def test_verification_needs_transformers(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="pip install transformers"):
        import_model(theirs, tmp_path / "run", verify=True)
    assert not (tmp_path / "run").exists()


def test_other_formats_cannot_be_verified(tmp_path: Path) -> None:
    stories = Path(__file__).parents[3] / "shared" / "data" / "stories260K"
    if not stories.is_dir():
        pytest.skip(f"{stories} is not there")
    with pytest.raises(ConfigError, match=r"does not read llama2\.c"):
        import_model(stories, tmp_path / "run", verify=True)
