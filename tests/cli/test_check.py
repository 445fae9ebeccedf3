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


def test_a_sound_recipe_passes(call, recipe: Path, tmp_path: Path) -> None:
    answer = call("check", recipe, "model.position=rotary")
    assert answer.code == 0, answer.out + answer.err
    assert "grammar" in answer.err  # the ledger
    assert "of the tokens unknown" in answer.err
    assert answer.out.count("✓") == len(all_properties()) - 1
    assert "does not apply:" in " ".join(answer.out.split())
    assert "✗" not in answer.out
    assert not (tmp_path / "runs").exists()


def test_what_fails_is_named_with_what_to_do(
    call, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (
        Check("the sky is blue", "cloud cover", 0.1, 0.5, "wait."),
        Check("the sea is calm", "height of waves", 0.75, 0.5, "stay in port."),
        Check("the bird sings", "silence", None, 0.5, "listen."),
    )

    class Fixed(Property):
        def check(self, _: object) -> Check:
            return next(results)

    results = iter(made)
    monkeypatch.setattr(run, "all_properties", lambda: [Fixed() for _ in made])
    answer = call("check", recipe)
    assert answer.code == 1
    marks = [line[:1] for line in answer.out.splitlines() if line[:1] in "✓✗–" and line]
    assert marks == ["✓", "✗", "–", "✗"]
    assert "0.75" in answer.out
    assert "does not apply" in answer.out
    assert "✗ the sea is calm: stay in port." in answer.out
    assert "wait." not in answer.out
    assert "tiny.yaml: 1 of 3 checks failed" in answer.err


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("model.hedas=4", "unknown key 'hedas', did you mean 'heads'?"),
        ("model.kind=language-model", "a language-model does not have it"),
        ("task=language-model", "the task language-model needs sources of"),
    ],
)
def test_what_cannot_be_trained_cannot_be_checked(
    call, recipe: Path, override: str, complaint: str
) -> None:
    answer = call("check", recipe, override)
    assert answer.code == 1
    assert complaint in answer.err
    assert "Traceback" not in answer.err
