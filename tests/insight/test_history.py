"""A film of training: what is kept is what the model looked at then, and it plays."""

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.api import resume
from regard.errors import DataError
from regard.insight.history import film
from regard.insight.look import look
from regard.training import checkpoint
from regard.training.recipe import make_recipe

TEXT = "The animal didn't cross the street because it was too tired."
RECIPE = {
    "data": {
        "train": {"kind": "grammar", "train_size": 400},
        "dev": {"kind": "grammar", "train_size": 400, "split": "dev"},
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


def test_a_film_is_kept_played_and_gone_on_with(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    translator = regard.train(make_recipe(RECIPE, (), "a test"), run)
    scenes = film(run).scenes
    assert [scene.title for scene in scenes] == ["step 1", "step 2", "step 4", "step 6"]
    now, last = look(translator, TEXT), scenes[-1].pictures[0]
    for panel in now.panels:
        kept = last.panel(panel.name)
        if kept.queries == panel.queries:
            assert np.allclose(kept.weights, panel.weights, atol=1e-4)
    before = scenes[0].pictures[0].panel("encoder").weights
    assert not np.allclose(before, last.panel("encoder").weights, atol=1e-4)
    assert "step 4" in (run / "film.html").read_text(encoding="utf-8")
    assert checkpoint.newest_first(run)
    resume(run, ["training.steps=8"])
    assert [scene.title for scene in film(run).scenes][-1] == "step 8"


def test_without_a_film_the_way_to_one_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"attention_history: \{every: 200"):
        film(tmp_path)
