"""Attention history of a training run: recorded, read, written as a page and continued."""

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.api import resume
from regard.errors import DataError
from regard.insight.history import read_history
from regard.insight.look import look
from regard.training import checkpoint
from regard.training.recipe import make_recipe

TEXT = "The animal didn't cross the street because it was too tired."
RECIPE = {
    "data": {
        "train": {"kind": "grammar", "train_size": 400, "dev_size": 20},
        "dev": {"kind": "grammar", "train_size": 400, "dev_size": 20, "split": "dev"},
    },
    "tokenizer": {"vocabulary": 700},
    "model": {"kind": "encoder-decoder", "dim": 16, "heads": 2, "ffn_dim": 32, "layers": 1},
    "training": {
        "steps": 6,
        "batch_tokens": 200,
        "checkpoint_every": 4,
        "evaluation": {"every": 6, "metric": "loss"},
    },
    "attention_history": {"every": 2, "text": TEXT},
}


def test_history_is_recorded_written_and_continued(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    translator = regard.train(make_recipe(RECIPE, (), "a test"), run)
    snapshots = read_history(run).snapshots
    assert [snapshot.title for snapshot in snapshots] == ["step 1", "step 2", "step 4", "step 6"]
    now, last = look(translator, TEXT), snapshots[-1].pictures[0]
    for panel in now.panels:
        recorded = last.panel(panel.name)
        if recorded.queries == panel.queries:
            assert np.allclose(recorded.weights, panel.weights, atol=1e-4)
    before = snapshots[0].pictures[0].panel("encoder").weights
    assert not np.allclose(before, last.panel("encoder").weights, atol=1e-4)
    assert "step 4" in (run / "history.html").read_text(encoding="utf-8")
    assert checkpoint.newest_first(run)
    # The rate of the training text is stored, to flag texts that are unlike it.
    assert 1 <= regard.load(run).tokens_per_word < 3
    resume(run, ["training.steps=8"])
    assert [snapshot.title for snapshot in read_history(run).snapshots][-1] == "step 8"


def test_error_without_a_history_names_the_recipe_key(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"attention_history: \{every: 200"):
        read_history(tmp_path)
