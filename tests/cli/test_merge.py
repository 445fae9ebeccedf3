"""regard merge: from a run to its adapter to an ordinary run, as a user goes that way."""

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


def test_an_adapter_and_its_merged_run_say_the_same(call, recipe: Path, tmp_path: Path) -> None:
    base, adapter, merged = (tmp_path / name for name in ("base", "adapter", "merged"))
    assert call("train", recipe, "--run", base).code == 0
    tuned = tmp_path / "tuned.yaml"
    kept = [
        line
        for line in recipe.read_text().splitlines()
        if not line.startswith(("model", "tokenizer"))
    ]
    tuned.write_text("\n".join([*kept, f"init: {base}", "adapter: {rank: 4, on: [w_q, w_v]}\n"]))
    answer = call("train", tuned, "--run", adapter)
    assert answer.code == 0, answer.err
    assert "kept" in answer.err
    assert "are trained" in answer.err
    answer = call("merge", adapter, "--output", merged)
    assert answer.code == 0, answer.err
    assert f"The model is in {merged}." in answer.out
    words = b"le chat 3\nle chat 7\n"
    said = [call("translate", each, stdin=words).out for each in (adapter, merged)]
    assert said[0] == said[1] != ""
    for run, complaint in ((base, "has no adapter"), (tmp_path / "none", "no such run folder")):
        answer = call("merge", run, "--output", tmp_path / "again")
        assert answer.code == 1
        assert complaint in answer.err
        assert not (tmp_path / "again").exists()
