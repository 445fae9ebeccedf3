"""regard train: the files of a run folder, reproducibility and errors in recipes."""

import json
from pathlib import Path

import pytest

from regard import run_folder
from regard.loading import load

MODEL_FILES = ("model.safetensors", "tokenizer.json", "languages.json")


def weights_of(run: Path) -> bytes:
    return run_folder.path_of(run, run_folder.WEIGHTS).read_bytes()


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


def test_train_writes_a_run_folder(call, recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "mine"
    result = call("train", recipe, "training.steps=5", "--run", run)
    assert result.code == 0, result.err
    assert "en → fr" in result.err
    translator = load(run)
    assert set(translator.languages) == {"fr", "en"}
    assert len(translator.translate(["le chat 3", "the cat 4"])) == 2
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if "loss" in event] == [1, 2, 3, 4, 5]
    assert {path.name for path in run.iterdir()} == {
        *("README.md", "recipe.yaml", "training.json", "ledger.json", "metrics.jsonl"),
        *("model.json", *(run_folder.path_of(run, name).name for name in MODEL_FILES)),
        *("loss.svg", "bleu.svg", "chrf.svg", "perplexity.svg", "tensorboard", "checkpoints"),
    }
    assert "steps: 5" in (run / "recipe.yaml").read_text()


def test_a_trained_model_is_replaced_only_with_overwrite(
    call, recipe: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert call("train", recipe, "--run", run).code == 0
    before = weights_of(run)
    result = call("train", recipe, "--run", run)
    assert result.code == 1
    assert "a trained model is there; --overwrite replaces it" in result.err
    assert weights_of(run) == before
    assert call("train", recipe, "training.seed=2", "--run", run, "--overwrite").code == 0
    assert weights_of(run) != before


def test_equal_seeds_give_equal_weights(call, recipe: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert call("train", recipe, "--run", tmp_path / name).code == 0
    weights = [weights_of(tmp_path / name) for name in ("one", "two")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("frozen", ["true", "false"])
def test_pretrained_embeddings_are_loaded(call, recipe: Path, tmp_path: Path, frozen: str) -> None:
    (tmp_path / "v.txt").write_text("chat " + "0.5 " * 31 + "0.5\nzebra " + "1 " * 31 + "1\n")
    result = call(
        "train",
        recipe,
        f"pretrained_embeddings={{path: {tmp_path}/v.txt, frozen: {frozen}}}",
        "--run",
        tmp_path / "run",
    )
    assert result.code == 0, result.err
    assert "v.txt initializes 1 of" in result.err
    assert "are not in it and start at random" in " ".join(result.err.split())
    translator = load(tmp_path / "run")
    row = translator.model.encoder.embedding.tokens.weight[translator.tokenizer.encode("chat")[0]]
    unchanged = (row.detach() * 32**0.5 - 0.5).abs().max() < 1e-6
    assert bool(unchanged) == (frozen == "true")


@pytest.mark.parametrize(
    ("override", "message"),
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
def test_errors_in_a_recipe_are_one_sentence(
    call, recipe: Path, tmp_path: Path, override: str, message: str
) -> None:
    result = call("train", recipe, override, "--run", tmp_path / "run")
    assert result.code == 1
    assert message in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "run").exists()


def test_unknown_characters_in_the_dev_set_are_no_error(call, recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("le чат\tthe cat 3\n")
    result = call("train", recipe, "--run", tmp_path / "run")
    assert result.code == 0, result.err


def test_error_names_a_missing_recipe(call, tmp_path: Path) -> None:
    result = call("train", tmp_path / "nowhere.yaml")
    assert result.code == 1
    assert "nowhere.yaml: there is no such recipe" in result.err
