"""regard check: checks of a recipe, and an exit code for scripts."""

from pathlib import Path

import pytest

from regard.training.checks import run
from regard.training.checks.properties.base import Check, Property, all_properties


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    grammar = "kind: grammar, train_size: 300, dev_size: 20, pronouns_size: 20"
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "data:\n"
        f"  train: {{{grammar}}}\n"
        f"  dev: {{{grammar}, split: dev}}\n"
        f"  prepared: {tmp_path / 'prepared'}\n"
        "tokenizer: {vocabulary: 300}\n"
        "model: {kind: encoder-decoder, layers: 1, dim: 32, ffn_dim: 64, max_length: 128}\n"
        "training: {steps: 3, optimizer: {kind: adamw, learning_rate: 0.01}}\n"
    )
    return path


def test_a_valid_recipe_passes_every_check(call, recipe: Path, tmp_path: Path) -> None:
    result = call("check", recipe, "model.position=rotary")
    assert result.code == 0, result.out + result.err
    assert "grammar" in result.err  # the ledger
    assert "of the tokens unknown" in result.err
    assert result.out.count("✓") == len(all_properties()) - 1
    assert "does not apply:" in " ".join(result.out.split())
    assert "✗" not in result.out
    assert not (tmp_path / "runs").exists()


def test_failed_checks_are_named_with_their_remedy(
    call, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = (
        Check("the sky is blue", "cloud cover", 0.1, 0.5, "wait."),
        Check("the sea is calm", "height of waves", 0.75, 0.5, "stay in port."),
        Check("the bird sings", "silence", None, 0.5, "listen."),
    )

    class Fixed(Property):
        def check(self, _: object) -> Check:
            return next(results)

    results = iter(checks)
    monkeypatch.setattr(run, "all_properties", lambda: [Fixed() for _ in checks])
    result = call("check", recipe)
    assert result.code == 1
    marks = [line[:1] for line in result.out.splitlines() if line[:1] in "✓✗–" and line]
    assert marks == ["✓", "✗", "–", "✗"]
    assert "0.75" in result.out
    assert "does not apply" in result.out
    assert "✗ the sea is calm: stay in port." in result.out
    assert "wait." not in result.out
    assert "tiny.yaml: 1 of 3 checks failed" in result.err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.hedas=4", "unknown key 'hedas', did you mean 'heads'?"),
        ("model.kind=language-model", "a language-model does not have it"),
        ("task=language-model", "the task language-model needs sources of"),
    ],
)
def test_invalid_recipes_are_refused(call, recipe: Path, override: str, message: str) -> None:
    result = call("check", recipe, override)
    assert result.code == 1
    assert message in result.err
    assert "Traceback" not in result.err
