"""Convolutional and self-attention-only baselines: recipes in which only the kind differs."""

from pathlib import Path

import pytest

from regard.data.bundled import corpus
from regard.errors import ConfigError
from regard.loading import load

KINDS = ("convolutional", "self-attention-only")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write recipes of a Transformer for running text and for labeled lines."""
    home = tmp_path_factory.mktemp("baselines")
    texts = [pair.english for pair in corpus(1, 300, 20, 20).train]
    (home / "train.txt").write_text("".join(f"{text}\n" for text in texts[20:]), "utf-8")
    (home / "dev.txt").write_text("".join(f"{text}\n" for text in texts[:20]), "utf-8")
    labeled_lines = [f"{text}\t{'asks' if '?' in text else 'says'}\n" for text in texts]
    (home / "texts.tsv").write_text("".join(labeled_lines), "utf-8")
    common = "tokenizer: {vocabulary: 400}\ntraining: {steps: 8, batch_tokens: 400}\n"
    (home / "text.yaml").write_text(
        "task: language-model\n"
        f"data: {{train: {{kind: text, path: {home}/train.txt}}, "
        f"dev: {{kind: text, path: {home}/dev.txt}}, prepared: {home}/prepared}}\n"
        "model: {kind: language-model, dim: 32, layers: 2, max_length: 64}\n" + common
    )
    (home / "labels.yaml").write_text(
        "task: classification\n"
        f"data: {{train: {{kind: labeled, path: {home}/texts.tsv}}, dev_size: 30, "
        f"prepared: {home}/prepared}}\n"
        "model: {kind: classifier, dim: 32, layers: 2, max_length: 64}\n" + common
    )
    return home


@pytest.mark.parametrize("kind", KINDS)
def test_train_generate_look_and_export(call, folder: Path, tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    result = call("train", folder / "text.yaml", f"model.kind={kind}", "--run", run)
    assert result.code == 0, result.err
    generate = ("generate", run, "--prompt", "the cat", "--max-tokens", "12")
    greedy = call(*generate)
    assert greedy.code == 0, greedy.err
    assert greedy.out.startswith("the cat")
    for options in (("--prompt-lookup",), ("--draft-model", run)):
        assert call(*generate, *options).out == greedy.out
    beam = call(*generate, "--beam", "3")
    sampled = [call(*generate, "--temperature", "1", "--seed", seed).out for seed in (1, 1, 2)]
    assert beam.code == 0, beam.err
    assert sampled[0] == sampled[1] != sampled[2]
    scored = call("evaluate", run, folder / "dev.txt")
    assert scored.code == 0, scored.err
    assert "perplexity" in scored.out
    look = call("look", run, "the cat sleeps")
    assert look.code == 0, look.err
    assert ("Influence (gradients)" if kind == "convolutional" else "Self-attention") in look.out
    refused = call("heads", run, folder / "dev.txt")
    assert refused.code == 1
    assert "this model has no attention heads" in refused.err
    with pytest.raises(ConfigError, match="by the compiled engine, and it does not support block"):
        load(run, bits=8)
    for library in ("onnx", "ctranslate2", "huggingface"):
        refused = call("export", run, "--to", library)
        assert refused.code == 1
        assert f"a {kind} has no equivalent" in refused.err


@pytest.mark.parametrize("kind", KINDS)
def test_train_classify_and_look(call, folder: Path, tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    result = call("train", folder / "labels.yaml", f"model.kind={kind}", "--run", run)
    assert result.code == 0, result.err
    classified = call("classify", run, stdin=b"does the cat sleep?\nthe cat sleeps.\n")
    assert classified.code == 0, classified.err
    assert {line.split("\t")[0] for line in classified.out.splitlines()} <= {"asks", "says"}
    scored = call("evaluate", run, folder / "texts.tsv")
    assert scored.code == 0, scored.err
    assert call("look", run, "the cat sleeps").code == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recipe", ["text", "labels"])
def test_recipe_passes_every_check(call, folder: Path, kind: str, recipe: str) -> None:
    result = call(
        "check",
        folder / f"{recipe}.yaml",
        f"model.kind={kind}",
        *(["task.document_mask=true"] if recipe == "text" else []),
        "training.optimizer.learning_rate=0.01",
    )
    assert result.code == 0, result.out + result.err


def test_even_windows_and_seq2seq_are_refused(call, folder: Path, tmp_path: Path) -> None:
    even = call("train", folder / "labels.yaml", "model.kind=convolutional", "model.window=4")
    assert even.code == 1
    assert (
        "model: window: a classifier needs an odd window, centered on its token: choose 3 or 5"
        in even.err
    )
    (tmp_path / "pairs.tsv").write_text("chat\tcat\n" * 9)
    recipe = tmp_path / "pairs.yaml"
    recipe.write_text(
        f"data: {{train: {{kind: tsv, path: {tmp_path}/pairs.tsv, languages: [fr, en]}}}}\n"
        "model: {kind: convolutional}\n"
    )
    refused = call("train", recipe)
    assert refused.code == 1
    assert (
        "requires the capability seq2seq, and a convolutional does not have it; use decoder-only "
        "or encoder-decoder" in refused.err
    )
