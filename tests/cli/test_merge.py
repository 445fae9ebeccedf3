"""regard merge: an adapter and its base become one run."""

from pathlib import Path

import pytest

PAIRS = "".join(f"le chat {i}\tthe cat {i}\n" for i in range(30))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    path = tmp_path / "base.yaml"
    path.write_text(
        "data:\n"
        f"  train: {{kind: tsv, path: {tmp_path}/pairs.tsv, languages: [fr, en]}}\n"
        f"  prepared: {tmp_path}/prepared\n"
        "tokenizer: {vocabulary: 400}\n"
        "model: {kind: encoder-decoder, size: tiny, dim: 32, ffn_dim: 64}\n"
        "training: {steps: 2, batch_tokens: 500}\n"
    )
    return path


def test_merged_run_translates_like_its_adapter(call, recipe: Path, tmp_path: Path) -> None:
    base, adapter, merged = (tmp_path / name for name in ("base", "adapter", "merged"))
    assert call("train", recipe, "--run", base).code == 0
    tuned = tmp_path / "tuned.yaml"
    lines = [
        line
        for line in recipe.read_text().splitlines()
        if not line.startswith(("model", "tokenizer"))
    ]
    tuned.write_text("\n".join([*lines, f"init: {base}", "adapter: {rank: 4, on: [w_q, w_v]}\n"]))
    result = call("train", tuned, "--run", adapter)
    assert result.code == 0, result.err
    assert "kept" in result.err
    assert "are trained" in result.err
    result = call("merge", adapter, "--output", merged)
    assert result.code == 0, result.err
    assert f"The model is in {merged}." in result.out
    text = b"le chat 3\nle chat 7\n"
    outputs = [call("translate", run, stdin=text).out for run in (adapter, merged)]
    assert outputs[0] == outputs[1] != ""
    for run, message in ((base, "has no adapter"), (tmp_path / "none", "no such run folder")):
        result = call("merge", run, "--output", tmp_path / "again")
        assert result.code == 1
        assert message in result.err
        assert not (tmp_path / "again").exists()


def test_existing_output_is_replaced_only_with_overwrite(
    call, recipe: Path, tmp_path: Path
) -> None:
    run, theirs = tmp_path / "base", tmp_path / "theirs"
    assert call("train", recipe, "--run", run).code == 0
    assert call("export", run, "--to", "huggingface", "-o", theirs).code == 0
    result = call("export", run, "--to", "huggingface", "-o", theirs)
    assert result.code == 1
    assert "theirs: has files already" in result.err
    assert call("export", run, "--to", "huggingface", "-o", theirs, "--overwrite").code == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    result = call("import", theirs, "--languages", "fr-en", "--run", run)
    assert result.code == 1
    assert "base: a trained model is there; --overwrite replaces it." in result.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    (run / "model.json").unlink()  # an unfinished run has checkpoints
    result = call("import", theirs, "--languages", "fr-en", "--run", run)
    assert result.code == 1
    assert "base: an unfinished run is there" in result.err
    arguments = ("import", theirs, "--languages", "fr-en", "--run", run, "--overwrite")
    assert call(*arguments).code == 0
    names = {path.name for path in run.iterdir()}
    assert not names & {"checkpoints", "recipe.yaml", "training.json", "metrics.jsonl"}
    assert call("translate", run, "--to", "en", stdin=b"le chat 3\n").code == 0
