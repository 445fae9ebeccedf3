"""The demo: trained, scored, translated and drawn; then used again."""

import json
import re
from pathlib import Path

import pytest

from regard.cli.demo import TIRED, WIDE, _check
from regard.data.bundled import Corpus, corpus
from regard.errors import TrainingError
from regard.evaluation.pronouns import pronoun_accuracy
from regard.evaluation.texts import score_translations
from regard.loading import load


@pytest.fixture(scope="module")
def drawn() -> Corpus:
    return corpus()


def test_the_demo_works_and_says_its_scores(demo) -> None:
    assert demo.answer.code == 0, demo.answer.err
    said = demo.answer.err
    for direction in ("fr → en", "en → fr"):
        bleu, pairs = re.search(
            rf"{direction}\s+([\d.]+)\s+[\d.]+\s+[\d.]+%\s+([\d,]+)", said
        ).groups()
        assert float(bleu) >= 90
        assert pairs == "1,000"
    right = re.search(r"([\d.]+)% of 500 ambiguous", said)
    assert float(right[1]) >= 95
    assert "L'animal n'a pas traversé la rue parce qu'il était trop fatigué." in said
    assert "L'animal n'a pas traversé la rue parce qu'elle était trop large." in said


def test_the_scores_it_says_are_true(demo, drawn: Corpus) -> None:
    translator = load(demo.folder)
    held_out = drawn.dev[:300]
    for source, target, to in (("french", "english", "en"), ("english", "french", "fr")):
        outputs = translator.translate([getattr(pair, source) for pair in held_out], to)
        scored = score_translations(outputs, [getattr(pair, target) for pair in held_out])
        assert scored.bleu >= 88
    outputs = translator.translate([pair.english for pair in drawn.pronouns], "fr")
    assert pronoun_accuracy(outputs, [pair.pronoun for pair in drawn.pronouns]) >= 0.95


def test_the_language_of_each_line_is_noticed(demo) -> None:
    english, french = "The animal didn't cross the street.", "L'animal n'a pas traversé la rue."
    assert load(demo.folder).translate([english, "", french]) == [french, "", english]


def test_the_run_folder_is_a_model_with_its_papers(demo) -> None:
    names = {path.name for path in demo.folder.iterdir()}
    assert names == {
        *("README.md", "recipe.yaml", "training.json", "ledger.json", "metrics.jsonl"),
        *("model.json", "model.safetensors", "tokenizer.json", "languages.json"),
        *("loss.svg", "bleu.svg", "chrf.svg", "tensorboard", "checkpoints", "attention.html"),
    }
    card = (demo.folder / "README.md").read_text()
    assert "fr → en" in card
    metrics = (demo.folder / "metrics.jsonl").read_text().splitlines()
    losses = [each["loss"] for each in map(json.loads, metrics) if "loss" in each]
    assert losses[-1] < losses[0] / 3


def test_a_second_demo_uses_the_model_that_is_there(demo, call) -> None:
    before = (demo.folder / "model.safetensors").stat().st_mtime_ns
    answer = call("demo", "--run", demo.folder)
    assert answer.code == 0
    assert "Using the trained model in" in answer.err
    assert (demo.folder / "model.safetensors").stat().st_mtime_ns == before


def test_a_demo_that_did_not_work_fails_loudly() -> None:
    good, bad = (
        {"a": {"bleu": 95.0}, "b": {"bleu": 91.0}},
        {"a": {"bleu": 95.0}, "b": {"bleu": 12.0}},
    )
    _check(good, 0.96)
    with pytest.raises(TrainingError, match=r"BLEU 12\.0 \(at least 90 expected\)"):
        _check(bad, 0.99)
    with pytest.raises(TrainingError, match=r"pronouns 80\.0%"):
        _check(good, 0.8)


def test_the_page_shows_the_sentence(demo) -> None:
    page = (demo.folder / "attention.html").read_text()
    assert json.dumps(TIRED) in page
    assert WIDE not in page


def test_nothing_is_drawn_where_there_is_no_terminal(demo) -> None:
    assert "\x1b" not in demo.answer.err
    assert "tokens/s" not in demo.answer.err
    assert demo.answer.out == ""


def test_a_demo_in_a_place_that_cannot_be_written(call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = call("demo", "--run", tmp_path / "file" / "run")
    assert answer.code == 1
    assert "cannot be written" in answer.err
