"""What came before the Transformer, put in its place: the kind is the only change of a recipe."""

from pathlib import Path

import pytest

from regard.data.bundled import corpus
from regard.errors import ConfigError
from regard.loading import load

KINDS = ("convolutional", "self-attention-only")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recipes for a Transformer, of running text and of labelled lines."""
    here = tmp_path_factory.mktemp("before")
    texts = [pair.english for pair in corpus(1, 300, 20, 20).train]
    (here / "train.txt").write_text("".join(f"{text}\n" for text in texts[20:]), "utf-8")
    (here / "dev.txt").write_text("".join(f"{text}\n" for text in texts[:20]), "utf-8")
    labelled = [f"{text}\t{'asks' if '?' in text else 'says'}\n" for text in texts]
    (here / "texts.tsv").write_text("".join(labelled), "utf-8")
    rest = "tokenizer: {vocabulary: 400}\ntraining: {steps: 8, batch_tokens: 400}\n"
    (here / "text.yaml").write_text(
        "task: language-model\n"
        f"data: {{train: {{kind: text, path: {here}/train.txt}}, "
        f"dev: {{kind: text, path: {here}/dev.txt}}, prepared: {here}/prepared}}\n"
        "model: {kind: language-model, dim: 32, layers: 2, max_length: 64}\n" + rest
    )
    (here / "labels.yaml").write_text(
        "task: classification\n"
        f"data: {{train: {{kind: labeled, path: {here}/texts.tsv}}, dev_size: 30, "
        f"prepared: {here}/prepared}}\n"
        "model: {kind: classifier, dim: 32, layers: 2, max_length: 64}\n" + rest
    )
    return here


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_gone_on_with_in_every_way(call, folder: Path, tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    answer = call("train", folder / "text.yaml", f"model.kind={kind}", "--run", run)
    assert answer.code == 0, answer.err
    begin = ("generate", run, "--prompt", "the cat", "--max-tokens", "12")
    greedy = call(*begin)
    assert greedy.code == 0, greedy.err
    assert greedy.out.startswith("the cat")
    for same in (("--prompt-lookup",), ("--draft-model", run)):
        assert call(*begin, *same).out == greedy.out
    beam = call(*begin, "--beam", "3")
    drawn = [call(*begin, "--temperature", "1", "--seed", seed).out for seed in (1, 1, 2)]
    assert beam.code == 0, beam.err
    assert drawn[0] == drawn[1] != drawn[2]
    scored = call("evaluate", run, folder / "dev.txt")
    assert scored.code == 0, scored.err
    assert "perplexity" in scored.out
    shown = call("look", run, "the cat sleeps")
    assert shown.code == 0, shown.err
    assert ("Influence (gradients)" if kind == "convolutional" else "Self-attention") in shown.out
    refused = call("heads", run, folder / "dev.txt")
    assert refused.code == 1
    assert "this model has no attention heads" in refused.err
    with pytest.raises(
        ConfigError, match="encoder-decoder or a language model, and this model is another kind"
    ):
        load(run, bits=8)
    for library in ("onnx", "ctranslate2", "huggingface"):
        refused = call("export", run, "--to", library)
        assert refused.code == 1
        assert f"a {kind} has no equivalent" in refused.err


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_judged(call, folder: Path, tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    answer = call("train", folder / "labels.yaml", f"model.kind={kind}", "--run", run)
    assert answer.code == 0, answer.err
    judged = call("classify", run, stdin=b"does the cat sleep?\nthe cat sleeps.\n")
    assert judged.code == 0, judged.err
    assert {line.split("\t")[0] for line in judged.out.splitlines()} <= {"asks", "says"}
    scored = call("evaluate", run, folder / "texts.tsv")
    assert scored.code == 0, scored.err
    assert call("look", run, "the cat sleeps").code == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recipe", ["text", "labels"])
def test_all_that_applies_is_proven(call, folder: Path, kind: str, recipe: str) -> None:
    answer = call(
        "check",
        folder / f"{recipe}.yaml",
        f"model.kind={kind}",
        *(["task.document_mask=true"] if recipe == "text" else []),
        "training.optimizer.learning_rate=0.01",
    )
    assert answer.code == 0, answer.out + answer.err


def test_what_cannot_be_is_refused(call, folder: Path, tmp_path: Path) -> None:
    odd = call("train", folder / "labels.yaml", "model.kind=convolutional", "model.window=4")
    assert odd.code == 1
    assert (
        "model: window: a classifier needs an odd window, centered on its token: choose 3 or 5"
        in odd.err
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
