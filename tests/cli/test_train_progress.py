"""regard train in a log: progress, advice, the model of a recipe without one, and final figures."""

from pathlib import Path

import pytest
import yaml

from regard.training import sizing
from regard.training.reporting import log_lines

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "every",
    "dog",
    "ran",
    "over",
    "that",
    "old",
    "hill",
    "and",
    "back",
]


def text_of(lines: int) -> str:
    return "".join(
        " ".join(WORDS[(line * step) % len(WORDS)] for step in range(1, 9)) + f" {line % 7}.\n"
        for line in range(lines)
    )


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Return the recipe of a language model with data alone."""
    (tmp_path / "train.txt").write_text(text_of(400))
    (tmp_path / "dev.txt").write_text(text_of(20))
    path = tmp_path / "lm.yaml"
    path.write_text(
        "task: language-model\n"
        "data:\n"
        f"  train: {{kind: text, path: {tmp_path}/train.txt}}\n"
        f"  dev: {{kind: text, path: {tmp_path}/dev.txt}}\n"
        f"  prepared: {tmp_path}/prepared\n"
        "tokenizer: {vocabulary: 300}\n"
        "training: {steps: 3, batch_tokens: 1024}\n"
    )
    return path


def test_recipe_without_a_model_gets_one_that_resume_and_reruns_share(
    call, recipe: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = call("train", recipe, "--run", run)
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if line.startswith("model: ")]
    assert "language-model of size tiny, chosen for the data and" in line
    assert "and 3 steps; model.size=… chooses another." in line
    written = yaml.safe_load((run / "recipe.yaml").read_text())
    assert (written["model"]["kind"], written["model"]["size"]) == ("language-model", "tiny")
    resumed = call("resume", run, "training.steps=4")
    assert resumed.code == 0, resumed.err
    assert "chosen for" not in resumed.err
    again = call("train", run / "recipe.yaml", "--run", tmp_path / "again")
    assert again.code == 0
    assert yaml.safe_load((tmp_path / "again" / "recipe.yaml").read_text()) == yaml.safe_load(
        (run / "recipe.yaml").read_text()
    )


def test_kind_of_the_model_follows_from_the_task(call, recipe: Path, tmp_path: Path) -> None:
    done = call("train", recipe, "task=masked-lm", "model={dim: 32}", "--run", tmp_path / "run")
    assert done.code == 0, done.err
    model = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["model"]
    assert (model["kind"], model["size"], model["dim"]) == ("masked-lm", None, 32)


def test_training_in_a_log_prints_lines_and_the_final_figures(
    call, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lines, "TENTH_SECONDS", 0)
    done = call("train", recipe, "training.steps=20", "--run", tmp_path / "run")
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if line.startswith("Training: ")]
    assert len(lines) == 10
    for part in ("Training: 50%, step 10  loss ", " target tokens/s", " s left"):
        assert part in lines[4]
    (scoring,) = [line for line in done.err.splitlines() if "then the model" in line]
    assert scoring.startswith("Scoring on dev: ")
    assert " tokens, about " in scoring
    (figures,) = [line for line in done.err.splitlines() if line.startswith("dev: ")]
    for name in ("loss", "perplexity", "next token right", "bits per character"):
        assert name in figures


def test_budget_of_too_few_passes_is_said_with_what_fits(
    call, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "MIN_EPOCHS", 1e4)
    monkeypatch.setattr(sizing, "TOKENS_PER_PARAMETER", 5)
    arguments = ("training.budget=1s", "model={size: small, dropout: 0}")
    done = call("train", recipe, *arguments, "--run", tmp_path / "run")
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "passes over the training data" in line]
    assert " steps in 1 s are " in line
    assert line.endswith("min.")
    assert "training.budget=" in line


@pytest.mark.parametrize(
    ("tokens", "budget", "size"),
    [
        (30_000, "90s", "tiny"),
        (300_000, "90s", "tiny"),
        (2_000_000, "20min", "small"),
        (2_000_000, "90s", "tiny"),
        (2_500_000, "3h", "base"),
        (1_000_000_000, "20min", "tiny"),
    ],
)
def test_size_follows_from_data_and_budget(tokens: int, budget: str, size: str) -> None:
    from regard.training.recipe import make_recipe

    source = {"kind": "text", "path": "a.txt"}
    content = {
        "task": "language-model",
        "data": {"train": source, "dev": source},
        "training": {"budget": budget},
    }
    recipe = make_recipe(content, (), "recipe")
    assert sizing.has_auto_size(recipe)
    assert sizing.with_chosen_size(recipe, 8000, tokens).model.size == size


def test_budget_replaces_the_steps_of_a_recipe_and_steps_a_budget(
    call, recipe: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = call("train", recipe, "training.budget=1s", "--run", run)
    assert done.code == 0, done.err
    assert f"training.budget=1s replaces training.steps: 3 of {recipe}.\n" in done.err
    written = yaml.safe_load((run / "recipe.yaml").read_text())["training"]
    assert (written["steps"], written["budget"]) == (None, 1.0)
    resumed = call("resume", run, "training.steps=9999", "training.budget=1s")
    assert resumed.code == 1
    assert "training: steps and budget are both given; leave one of them out" in resumed.err
    steps = 1 + max(int(p.name[5:]) for p in (run / "checkpoints").glob("step-*"))
    resumed = call("resume", run, f"training.steps={steps}")
    assert resumed.code == 0, resumed.err
    assert f"training.steps={steps} replaces training.budget: 1.0 of {run}" in resumed.err
