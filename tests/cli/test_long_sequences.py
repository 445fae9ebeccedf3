"""Attention kinds for long sequences: recipes in which only the attention differs."""

from pathlib import Path

import pytest

from regard.data.bundled import corpus

LINEAR = "model.attention=linear"
ALTERNATING = (
    "model.attention={kind: alternating, pattern: [{kind: block-local, size: 8}, compressed]}"
)
WINDOW = "model.attention={kind: window, size: 8}"
BIGBIRD = "model.attention={kind: bigbird, block: 2, window: 1, global: 1, random: 1}"
LINFORMER = "model.attention={kind: linformer, rank: 8, share: layers}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write recipes for running text and for labeled lines."""
    home = tmp_path_factory.mktemp("long")
    pairs = corpus(1, 300, 20, 20).train
    texts = [pair.english for pair in pairs]
    (home / "train.txt").write_text("".join(f"{text}\n" for text in texts[20:]), "utf-8")
    (home / "dev.txt").write_text("".join(f"{text}\n" for text in texts[:20]), "utf-8")
    labeled_lines = [f"{text}\t{'asks' if '?' in text else 'says'}\n" for text in texts]
    (home / "texts.tsv").write_text("".join(labeled_lines), "utf-8")
    common = (
        "tokenizer: {vocabulary: 400}\n"
        "training: {steps: 8, batch_tokens: 400}\n"
        "model: {kind: KIND, dim: 32, layers: 2, max_length: 128}\n"
    )
    (home / "text.yaml").write_text(
        "task: language-model\n"
        f"data: {{train: {{kind: text, path: {home}/train.txt}}, "
        f"dev: {{kind: text, path: {home}/dev.txt}}, prepared: {home}/prepared}}\n"
        + common.replace("KIND", "language-model")
    )
    (home / "labels.yaml").write_text(
        "task: classification\n"
        f"data: {{train: {{kind: labeled, path: {home}/texts.tsv}}, dev_size: 30, "
        f"prepared: {home}/prepared}}\n" + common.replace("KIND", "classifier")
    )
    return home


@pytest.mark.parametrize(
    ("kind", "attention"), [("linear", LINEAR), ("alternating", ALTERNATING), ("window", WINDOW)]
)
def test_train_generate_look_and_export(
    call, folder: Path, tmp_path: Path, kind: str, attention: str
) -> None:
    run = tmp_path / "run"
    result = call("train", folder / "text.yaml", attention, "--run", run)
    assert result.code == 0, result.err
    # Longer than the uncompressed part of the cache, so that some tokens are compressed.
    generate = ("generate", run, "--prompt", "the cat", "--max-tokens", "100")
    greedy = call(*generate)
    assert greedy.code == 0, greedy.err
    for options in (("--prompt-lookup",), ("--draft-model", run)):
        assert call(*generate, *options).out == greedy.out
    beam = call(*generate, "--beam", "3")
    assert beam.code == 0, beam.err
    look = call("look", run, "the cat sleeps")
    assert look.code == 0, look.err
    assert "Self-attention" in look.out
    for library in ("onnx", "ctranslate2", "huggingface"):
        refused = call("export", run, "--to", library)
        assert refused.code == 1
        assert f"attention {kind} has no equivalent in" in refused.err


@pytest.mark.parametrize("attention", [LINFORMER, BIGBIRD])
def test_train_classify_and_look(call, folder: Path, tmp_path: Path, attention: str) -> None:
    run = tmp_path / "run"
    result = call("train", folder / "labels.yaml", attention, "--run", run)
    assert result.code == 0, result.err
    classified = call("classify", run, stdin=b"does the cat sleep?\nthe cat sleeps.\n")
    assert classified.code == 0, classified.err
    assert {line.split("\t")[0] for line in classified.out.splitlines()} <= {"asks", "says"}
    assert call("look", run, "the cat sleeps").code == 0


@pytest.mark.parametrize(
    ("recipe", "attention"),
    [
        ("text", LINEAR),
        ("text", ALTERNATING),
        ("text", WINDOW),
        ("labels", LINFORMER),
        ("labels", BIGBIRD),
    ],
)
def test_recipe_passes_every_check(call, folder: Path, recipe: str, attention: str) -> None:
    result = call(
        "check", folder / f"{recipe}.yaml", attention, "training.optimizer.learning_rate=0.01"
    )
    assert result.code == 0, result.out + result.err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [LINFORMER],
            "model.attention: 'linformer' cannot decode step by step from a KV cache, which a "
            "decoder needs",
        ),
        (
            [LINEAR, "model.position=alibi"],
            "model.attention: 'linear' cannot add a bias to its scores, which model.position: "
            "alibi needs; choose another kind",
        ),
        (
            [LINEAR, "task={kind: language-model, document_mask: true}"],
            "model.attention: 'linear' cannot mask other documents of a row",
        ),
        ([BIGBIRD], "model.attention: 'bigbird' cannot decode step by step"),
        (["model.attention={kind: window, size: -3}"], "model.attention.size: input should be"),
        (["model.attention={kind: window, dilation: 300}"], "a token attends only to itself"),
        ([f"{ALTERNATING[:-1]}, width: 3}}"], "unknown key 'width'"),
        (["model.feed_forward={kind: moe, num_experts: 2, top_k: 3}"], "the top 3 of 2 experts"),
    ],
)
def test_unsupported_combinations_are_refused(
    call, folder: Path, tmp_path: Path, changes: list[str], message: str
) -> None:
    run, prepared = tmp_path / "run", tmp_path / "prepared"
    result = call(
        "train", folder / "text.yaml", *changes, f"data.prepared={prepared}", "--run", run
    )
    assert result.code == 1
    assert message in result.err
    assert not run.exists()
    assert not prepared.exists(), "preparing may take hours and comes after"
