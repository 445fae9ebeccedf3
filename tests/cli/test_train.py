"""regard train: from a recipe to a run folder, and what a recipe may not say."""

import json
from pathlib import Path

import pytest

from regard.loading import load

PAIRS = "".join(f"le chat {i}\tthe cat {i}\n" for i in range(30))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    (tmp_path / "dev.tsv").write_text("le chat 31\tthe cat 31\n")
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "data:\n"
        f"  train: {{kind: tsv, path: {tmp_path}/pairs.tsv, languages: [fr, en]}}\n"
        f"  dev: {{kind: tsv, path: {tmp_path}/dev.tsv, languages: [fr, en]}}\n"
        f"  prepared: {tmp_path}/prepared\n"
        "tokenizer: {vocabulary: 400}\n"
        "model: {kind: encoder-decoder, size: tiny, dim: 32, ffn_dim: 64}\n"
        "training: {steps: 3, batch_tokens: 500}\n"
    )
    return path


def test_a_run_folder_comes_of_it(call, recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "mine"
    answer = call("train", recipe, "training.steps=5", "--run", run)
    assert answer.code == 0, answer.err
    assert "en → fr" in answer.err
    translator = load(run)
    assert set(translator.languages) == {"fr", "en"}
    assert len(translator.translate(["le chat 3", "the cat 4"])) == 2
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [each["step"] for each in events if "loss" in each] == [1, 2, 3, 4, 5]
    assert {path.name for path in run.iterdir()} == {
        *("README.md", "recipe.yaml", "training.json", "ledger.json", "metrics.jsonl"),
        *("model.json", "model.safetensors", "tokenizer.json", "languages.json"),
        *("loss.svg", "bleu.svg", "chrf.svg", "perplexity.svg", "tensorboard", "checkpoints"),
    }
    assert "steps: 5" in (run / "recipe.yaml").read_text()


def test_a_model_that_is_there_is_not_lost(call, recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert call("train", recipe, "--run", run).code == 0
    before = (run / "model.safetensors").read_bytes()
    answer = call("train", recipe, "--run", run)
    assert answer.code == 1
    assert "a trained model is there; --overwrite replaces it" in answer.err
    assert (run / "model.safetensors").read_bytes() == before
    assert call("train", recipe, "training.seed=2", "--run", run, "--overwrite").code == 0
    assert (run / "model.safetensors").read_bytes() != before


def test_the_same_seed_gives_the_same_weights(call, recipe: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert call("train", recipe, "--run", tmp_path / name).code == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("frozen", ["true", "false"])
def test_pretrained_vectors(call, recipe: Path, tmp_path: Path, frozen: str) -> None:
    (tmp_path / "v.txt").write_text("chat " + "0.5 " * 31 + "0.5\nzebra " + "1 " * 31 + "1\n")
    answer = call(
        "train",
        recipe,
        f"pretrained_embeddings={{path: {tmp_path}/v.txt, frozen: {frozen}}}",
        "--run",
        tmp_path / "run",
    )
    assert answer.code == 0, answer.err
    assert "v.txt initializes 1 of" in answer.err
    assert "are missing from it" in answer.err
    translator = load(tmp_path / "run")
    row = translator.model.encoder.embedding.tokens.weight[translator.tokenizer.encode("chat")[0]]
    kept = (row.detach() * 32**0.5 - 0.5).abs().max() < 1e-6
    assert bool(kept) == (frozen == "true")


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("model.hedas=4", "tiny.yaml: model: unknown key 'hedas', did you mean 'heads'?"),
        ("model.heads=0", "model.heads: input should be greater than 0 (given: 0)"),
        ("model.position=rotery", "did you mean 'rotary'?"),
        ("training.batch_tokens=5", "tokens and a batch holds 5"),
        ("model.kind=language-model", "capability seq2seq, and a language-model does not have it"),
        ("model.max_length=4", "none of the 30 lines for train is left"),
        ("data.train.path=nowhere.tsv", "nowhere.tsv: cannot be read"),
        ("data.directions=[de-en]", "no source offers the direction de-en"),
        ("pretrained_embeddings={path: nowhere.txt}", "nowhere.txt: cannot be read"),
        ("nonsense", "'nonsense' is not an override"),
    ],
)
def test_what_is_wrong_is_one_clear_sentence(
    call, recipe: Path, tmp_path: Path, override: str, complaint: str
) -> None:
    answer = call("train", recipe, override, "--run", tmp_path / "run")
    assert answer.code == 1
    assert complaint in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "run").exists()


def test_characters_only_the_held_out_pairs_have_do_not_cost_the_run(
    call, recipe: Path, tmp_path: Path
) -> None:
    (tmp_path / "dev.tsv").write_text("le чат\tthe cat 3\n")
    answer = call("train", recipe, "--run", tmp_path / "run")
    assert answer.code == 0, answer.err


def test_a_missing_recipe(call, tmp_path: Path) -> None:
    answer = call("train", tmp_path / "nowhere.yaml")
    assert answer.code == 1
    assert "nowhere.yaml: there is no such recipe" in answer.err
