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
SAYING = "the quick brown fox jumps over the lazy dog and runs home again.\n"
LABELS = {"good": ["lovely", "superb", "witty", "warm"], "bad": ["awful", "cold", "dull", "boring"]}
TRAINING = {
    "steps": 60,
    "batch_tokens": 400,
    "optimizer": {"learning_rate": 0.01},
    "evaluation": {"every": 60},
}


def sentences() -> list[tuple[str, str]]:
    """Words said in every order of three, and the same in another language."""
    rows = [(a, b, c) for a in WORDS for b in WORDS for c in WORDS]
    return [(" ".join(row), " ".join(WORDS[word] for word in row)) for row in rows]


def content_of(kind: str, tmp_path: Path) -> dict[str, Any]:
    """A small recipe of each task."""
    if kind == "translation":
        text = "".join(f"{source}\t{target}\n" for source, target in sentences())
        source: Mapping[str, Any] = {"kind": "tsv", "languages": ["fr", "en"]}
        more: dict[str, Any] = {"dev_size": 30, "directions": ["fr-en"]}
    elif kind == "language-model":
        dev = tmp_path / "dev.txt"
        dev.write_text(SAYING * 20)
        text, source = SAYING * 200, {"kind": "text"}
        more = {"dev": {"kind": "text", "path": str(dev)}}
    else:
        rows = [
            f"the film was {one} and {two}\t{label}\n"
            for label, words in LABELS.items()
            for one in words
            for two in words
        ]
        text, source, more = "".join(rows), {"kind": "labeled"}, {"dev_size": 6}
    path = tmp_path / f"{kind}.txt"
    path.write_text(text)
    return {
        "task": kind,
        "data": {"train": {**source, "path": str(path)}, "prepared": str(tmp_path / "p"), **more},
        "tokenizer": {"kind": "word", "vocabulary": 320, "spaces": "keep"},
        "model": {"kind": "recurrent", "dim": 32, "dropout": 0.0, "max_length": 48},
        "training": TRAINING,
    }


def trained(kind: str, tmp_path: Path, *changes: str) -> Path:
    run = tmp_path / "run"
    train(make_recipe(content_of(kind, tmp_path), changes, "recipe"), run)
    return run


def test_a_translator_is_trained_loaded_and_decoded_every_way(tmp_path: Path) -> None:
    longer = ("training.steps=150", "model.dim=48", "training.label_smoothing=0")
    run = trained("translation", tmp_path, *longer)
    translator = regard.load(run)
    pairs = sentences()[::13]
    sources, wanted = [source for source, _ in pairs], [target for _, target in pairs]
    greedy = translator.translate(sources, "en")
    right = sum(one == other for one, other in zip(greedy, wanted, strict=True))
    assert right >= 0.9 * len(pairs)
    assert translator.translate(sources[:1], "en") == greedy[:1]
    assert translator.translate(sources, "en", beam=3)[0] == wanted[0]

    pairs_file = str(tmp_path / "translation.txt")
    for command, reason in (
        (["translate", str(run), "--to", "en", "--int8"], "integer weights"),
        (["heads", str(run), pairs_file], "this model has no attention heads"),
        (["export", str(run), "--to", "onnx"], "a recurrent has no equivalent"),
    ):
        refused = CliRunner().invoke(app, command, input="chat\n")
        assert isinstance(refused.exception, RegardError)
        assert reason in str(refused.exception)


def test_a_writer_is_trained_loaded_and_guesses_change_nothing(tmp_path: Path) -> None:
    run = trained("language-model", tmp_path, "task={kind: language-model, document_mask: true}")
    writer = regard.load(run)
    text = writer.generate("the quick brown", max_tokens=6)
    assert text.strip().startswith("fox jumps over")
    assert "".join(writer.speculate("the quick brown", max_tokens=6)) == text
    assert (
        "".join(writer.speculate("the quick brown", max_tokens=6, draft_model=regard.load(run)))
        == text
    )
    drawn = DecodingConfig(sampling=Sampling(temperature=0.1, seed=1))
    assert writer.generate("the quick brown", 6, drawn) == text
    assert (
        writer.generate("the quick brown", 60, sliding_window=True).strip().startswith(text.strip())
    )


def test_a_classifier_is_trained_and_loaded(tmp_path: Path) -> None:
    run = trained("classification", tmp_path, "model.pooling=attention", "model.cell=lstm")
    judged = regard.load(run).classify(
        ["the film was lovely and warm", "the film was dull and cold"]
    )
    assert [each.label for each in judged] == ["good", "bad"]


def test_its_parts_are_frozen_and_paced_by_name(tmp_path: Path) -> None:
    begun = trained("translation", tmp_path, "training.steps=2")
    changes = (
        f"init={begun}",
        "training.optimizer=adamw",
        "training.steps=2",
        "training.freeze=[embedding, encoder.blocks.0]",
        "training.layer_lr_decay=0.5",
        "training.lr_multipliers={readout: 2}",
    )
    recipe = make_recipe(content_of("translation", tmp_path), changes, "recipe")
    train(recipe, tmp_path / "second")
    before, after = (regard.load(each).model.state_dict() for each in (begun, tmp_path / "second"))
    moved = {name for name in before if not before[name].equal(after[name])}
    assert "decoder.readout.weight" in moved
    assert "decoder.blocks.0.cross.attention.score.v" in moved
    assert not [name for name in moved if "embedding" in name or "encoder.blocks.0" in name]
