"""Kinds of attention for long texts, from a recipe to text: the kind is the only change of it."""

from pathlib import Path

import pytest

from regard.data.bundled import corpus

LINEAR = "model.attention=linear"
TURNS = "model.attention={kind: alternating, pattern: [{kind: block-local, size: 8}, compressed]}"
WINDOW = "model.attention={kind: window, size: 8}"
BIGBIRD = "model.attention={kind: bigbird, block: 2, window: 1, global: 1, random: 1}"
LINFORMER = "model.attention={kind: linformer, rank: 8, share: layers}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recipes of running text, of labelled lines and of pairs."""
    here = tmp_path_factory.mktemp("long")
    pairs = corpus(1, 300, 20, 20).train
    texts = [pair.english for pair in pairs]
    (here / "train.txt").write_text("".join(f"{text}\n" for text in texts[20:]), "utf-8")
    (here / "dev.txt").write_text("".join(f"{text}\n" for text in texts[:20]), "utf-8")
    labelled = [f"{text}\t{'asks' if '?' in text else 'says'}\n" for text in texts]
    (here / "texts.tsv").write_text("".join(labelled), "utf-8")
    rest = (
        "tokenizer: {vocabulary: 400}\n"
        "training: {steps: 8, batch_tokens: 400}\n"
        "model: {kind: KIND, dim: 32, layers: 2, max_length: 128}\n"
    )
    (here / "text.yaml").write_text(
        "task: language-model\n"
        f"data: {{train: {{kind: text, path: {here}/train.txt}}, "
        f"dev: {{kind: text, path: {here}/dev.txt}}, prepared: {here}/prepared}}\n"
        + rest.replace("KIND", "language-model")
    )
    (here / "labels.yaml").write_text(
        "task: classification\n"
        f"data: {{train: {{kind: labeled, path: {here}/texts.tsv}}, dev_size: 30, "
        f"prepared: {here}/prepared}}\n" + rest.replace("KIND", "classifier")
    )
    return here


@pytest.mark.parametrize(
    ("kind", "attention"), [("linear", LINEAR), ("alternating", TURNS), ("window", WINDOW)]
)
def test_a_text_is_gone_on_with_in_every_way(
    call, folder: Path, tmp_path: Path, kind: str, attention: str
) -> None:
    run = tmp_path / "run"
    answer = call("train", folder / "text.yaml", attention, "--run", run)
    assert answer.code == 0, answer.err
    # Longer than what is kept of the words as they are, so that some are summed up.
    begin = ("generate", run, "--prompt", "the cat", "--max-tokens", "100")
    greedy = call(*begin)
    assert greedy.code == 0, greedy.err
    for same in (("--prompt-lookup",), ("--draft-model", run)):
        assert call(*begin, *same).out == greedy.out
    beam = call(*begin, "--beam", "3")
    assert beam.code == 0, beam.err
    shown = call("look", run, "the cat sleeps")
    assert shown.code == 0, shown.err
    assert "Self-attention" in shown.out
    for library in ("onnx", "ctranslate2", "huggingface"):
        refused = call("export", run, "--to", library)
        assert refused.code == 1
        assert f"attention {kind} has no equivalent in" in refused.err


@pytest.mark.parametrize("attention", [LINFORMER, BIGBIRD])
def test_texts_are_judged(call, folder: Path, tmp_path: Path, attention: str) -> None:
    run = tmp_path / "run"
    answer = call("train", folder / "labels.yaml", attention, "--run", run)
    assert answer.code == 0, answer.err
    judged = call("classify", run, stdin=b"does the cat sleep?\nthe cat sleeps.\n")
    assert judged.code == 0, judged.err
    assert {line.split("\t")[0] for line in judged.out.splitlines()} <= {"asks", "says"}
    assert call("look", run, "the cat sleeps").code == 0


@pytest.mark.parametrize(
    ("recipe", "attention"),
    [
        ("text", LINEAR),
        ("text", TURNS),
        ("text", WINDOW),
        ("labels", LINFORMER),
        ("labels", BIGBIRD),
    ],
)
def test_all_that_applies_is_proven(call, folder: Path, recipe: str, attention: str) -> None:
    answer = call(
        "check", folder / f"{recipe}.yaml", attention, "training.optimizer.learning_rate=0.01"
    )
    assert answer.code == 0, answer.out + answer.err


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            [LINFORMER],
            "attention 'linformer' cannot decode step by step from a KV cache, which a "
            "decoder needs",
        ),
        (
            [LINEAR, "model.position=alibi"],
            "attention 'linear' cannot add a bias to its scores, which a decoder needs",
        ),
        (
            [LINEAR, "task={kind: language-model, document_mask: true}"],
            "attention 'linear' cannot mask other documents of a row",
        ),
        ([BIGBIRD], "attention 'bigbird' cannot decode step by step"),
        (["model.attention={kind: window, size: -3}"], "model.attention.size: input should be"),
        (["model.attention={kind: window, dilation: 300}"], "a token attends only to itself"),
        ([f"{TURNS[:-1]}, width: 3}}"], "unknown key 'width'"),
        (["model.feed_forward={kind: moe, num_experts: 2, top_k: 3}"], "the top 3 of 2 experts"),
    ],
)
def test_what_cannot_go_together_is_refused(
    call, folder: Path, tmp_path: Path, changes: list[str], sentence: str
) -> None:
    run, prepared = tmp_path / "run", tmp_path / "prepared"
    answer = call(
        "train", folder / "text.yaml", *changes, f"data.prepared={prepared}", "--run", run
    )
    assert answer.code == 1
    assert sentence in answer.err
    assert not run.exists()
    assert not prepared.exists(), "hours of preparing come after"
