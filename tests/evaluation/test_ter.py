"""TER: parity with sacrebleu, and everything that a metric file alone brings about."""

import json
from pathlib import Path

import pytest
import sacrebleu

from regard import run_folder
from regard.cli._shared.console import score_table
from regard.evaluation.base import metric_named
from regard.evaluation.texts import score_translations
from regard.training.recipe import make_recipe
from regard.training.trainer import train

REFERENCES = ["A man rides a red bicycle.", "Two dogs run on the beach.", "The cat sleeps."]
OUTPUTS = ["A man rides a bicycle red.", "two dogs on the beach run", "the dog barks all night"]


def test_ter_equals_sacrebleu() -> None:
    scores = score_translations(OUTPUTS, REFERENCES)
    assert scores["ter"] == sacrebleu.corpus_ter(OUTPUTS, [REFERENCES]).score > 0
    assert "case:lc|tok:tercom" in scores.signatures["ter"]
    assert score_translations(REFERENCES, REFERENCES)["ter"] == 0


def test_lower_ter_is_better() -> None:
    assert metric_named("ter").is_better(20.0, 30.0)
    assert not metric_named("ter").is_better(30.0, 20.0)


def test_ter_selects_checkpoints_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("le chat dort\tthe cat sleeps\nun chien\ta dog\n")
    (tmp_path / "dev.tsv").write_text("un chat\ta cat\n")
    sources = {
        part: {"kind": "tsv", "path": str(tmp_path / f"{part}.tsv"), "languages": ["fr", "en"]}
        for part in ("train", "dev")
    }
    recipe = {
        "data": {**sources, "directions": ["fr-en"]},
        "tokenizer": {"kind": "character"},
        "model": {"kind": "encoder-decoder", "dim": 16, "heads": 2, "layers": 1, "max_length": 32},
        "training": {"steps": 2, "evaluation": {"every": 1, "metric": "ter"}},
    }
    run = tmp_path / "run"
    train(make_recipe(recipe, [], "recipe"), run)
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluations = [event for event in events if "scores" in event]
    values = [evaluation["scores"]["ter"] for evaluation in evaluations]
    assert len(values) == 2
    assert evaluations[1]["best"] is (values[1] < values[0])
    assert "TER" in (run / "ter.svg").read_text()
    assert "| TER |" in (run / "README.md").read_text()
    scores = run_folder.read(run).details["scores"]
    assert scores["fr → en"]["ter"] == pytest.approx(min(values))
    assert "TER" in [column.header for column in score_table(scores).columns]
