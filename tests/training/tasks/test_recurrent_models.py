"""Recurrent models trained in every task that they support."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.decoding.config import DecodingConfig
from regard.decoding.sampling import Sampling
from regard.errors import RegardError
from regard.training.recipe import make_recipe
from regard.training.trainer import train

WORDS = {
    "un": "a",
    "chat": "cat",
    "chien": "dog",
    "noir": "black",
    "petit": "small",
    "dort": "sleeps",
}
SENTENCE = "the quick brown fox jumps over the lazy dog and runs home again.\n"
LABELS = {"good": ["lovely", "superb", "witty", "warm"], "bad": ["awful", "cold", "dull", "boring"]}
TRAINING = {
    "steps": 60,
    "batch_tokens": 400,
    "optimizer": {"learning_rate": 0.01},
    "evaluation": {"every": 60},
}


def sentences() -> list[tuple[str, str]]:
    """Return all sequences of three words with their translations."""
    rows = [(a, b, c) for a in WORDS for b in WORDS for c in WORDS]
    return [(" ".join(row), " ".join(WORDS[word] for word in row)) for row in rows]


def content_of(kind: str, tmp_path: Path) -> dict[str, Any]:
    """Return the content of a small recipe of a task."""
    if kind == "translation":
        text = "".join(f"{source}\t{target}\n" for source, target in sentences())
        source: Mapping[str, Any] = {"kind": "tsv", "languages": ["fr", "en"]}
        splits: dict[str, Any] = {"dev_size": 30, "directions": ["fr-en"]}
    elif kind == "language-model":
        dev = tmp_path / "dev.txt"
        dev.write_text(SENTENCE * 20)
        text, source = SENTENCE * 200, {"kind": "text"}
        splits = {"dev": {"kind": "text", "path": str(dev)}}
    else:
        rows = [
            f"the film was {one} and {two}\t{label}\n"
            for label, words in LABELS.items()
            for one in words
            for two in words
        ]
        text, source, splits = "".join(rows), {"kind": "labeled"}, {"dev_size": 6}
    path = tmp_path / f"{kind}.txt"
    path.write_text(text)
    return {
        "task": kind,
        "data": {"train": {**source, "path": str(path)}, "prepared": str(tmp_path / "p"), **splits},
        "tokenizer": {"kind": "word", "vocabulary": 320, "spaces": "keep"},
        "model": {"kind": "recurrent", "dim": 32, "dropout": 0.0, "max_length": 48},
        "training": TRAINING,
    }


def trained(kind: str, tmp_path: Path, *changes: str) -> Path:
    run = tmp_path / "run"
    train(make_recipe(content_of(kind, tmp_path), changes, "recipe"), run)
    return run


def test_a_translator_trains_loads_and_decodes(tmp_path: Path) -> None:
    overrides = ("training.steps=150", "model.dim=48", "training.label_smoothing=0")
    run = trained("translation", tmp_path, *overrides)
    translator = regard.load(run)
    pairs = sentences()[::13]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    greedy = translator.translate(sources, "en")
    correct = sum(
        hypothesis == reference for hypothesis, reference in zip(greedy, references, strict=True)
    )
    assert correct >= 0.9 * len(pairs)
    assert translator.translate(sources[:1], "en") == greedy[:1]
    assert translator.translate(sources, "en", beam=3)[0] == references[0]

    pairs_file = str(tmp_path / "translation.txt")
    for command, reason in (
        (["translate", str(run), "--to", "en", "--int8"], "integer weights"),
        (["heads", str(run), pairs_file], "this model has no attention heads"),
        (["export", str(run), "--to", "onnx"], "a recurrent has no equivalent"),
    ):
        refused = CliRunner().invoke(app, command, input="chat\n")
        assert isinstance(refused.exception, RegardError)
        assert reason in str(refused.exception)


def test_a_language_model_trains_loads_and_speculates(tmp_path: Path) -> None:
    run = trained("language-model", tmp_path, "task={kind: language-model, document_mask: true}")
    generator = regard.load(run)
    text = generator.generate("the quick brown", max_tokens=6)
    assert text.strip().startswith("fox jumps over")
    assert "".join(generator.speculate("the quick brown", max_tokens=6)) == text
    assert (
        "".join(generator.speculate("the quick brown", max_tokens=6, draft_model=regard.load(run)))
        == text
    )
    sampled = DecodingConfig(sampling=Sampling(temperature=0.1, seed=1))
    assert generator.generate("the quick brown", 6, sampled) == text
    assert (
        generator.generate("the quick brown", 60, sliding_window=True)
        .strip()
        .startswith(text.strip())
    )


def test_a_classifier_trains_and_loads(tmp_path: Path) -> None:
    run = trained("classification", tmp_path, "model.pooling=attention", "model.cell=lstm")
    predictions = regard.load(run).classify(
        ["the film was lovely and warm", "the film was dull and cold"]
    )
    assert [prediction.label for prediction in predictions] == ["good", "bad"]


def test_freezing_and_lr_multipliers_work_by_name(tmp_path: Path) -> None:
    initial = trained("translation", tmp_path, "training.steps=2")
    changes = (
        f"init={initial}",
        "training.optimizer=adamw",
        "training.steps=2",
        "training.freeze=[embedding, encoder.blocks.0]",
        "training.layer_lr_decay=0.5",
        "training.lr_multipliers={readout: 2}",
    )
    recipe = make_recipe(content_of("translation", tmp_path), changes, "recipe")
    train(recipe, tmp_path / "second")
    before, after = (regard.load(run).model.state_dict() for run in (initial, tmp_path / "second"))
    updated = {name for name in before if not before[name].equal(after[name])}
    assert "decoder.readout.weight" in updated
    assert "decoder.blocks.0.cross.attention.score.v" in updated
    assert not [name for name in updated if "embedding" in name or "encoder.blocks.0" in name]
