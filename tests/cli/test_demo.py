"""regard demo: training, scores, translations and the attention page; a second run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard import run_folder
from regard.cli.demo import TIRED, WIDE, _check
from regard.data.bundled import Corpus, corpus
from regard.errors import TrainingError
from regard.evaluation.pronouns import pronoun_accuracy
from regard.evaluation.texts import score_translations
from regard.loading import load

MODEL_FILES = ("model.safetensors", "tokenizer.json", "languages.json")


@pytest.fixture(scope="module")
def sentences() -> Corpus:
    return corpus()


def test_demo_reaches_its_scores_and_prints_them(demo) -> None:
    assert demo.result.code == 0, demo.result.err
    printed = demo.result.err
    pretrained, _, printed = printed.partition("Now one of your own")
    assert "Je voudrais un café, s'il vous plaît." in pretrained
    assert "coffee" in pretrained
    assert "J'ai perdu mes clés" in pretrained
    assert "A sentence of yours" not in pretrained  # nobody is there to type it
    for direction in ("fr → en", "en → fr"):
        bleu, pairs = re.search(
            rf"{direction}\s+([\d.]+)\s+[\d.]+\s+[\d.]+%\s+[\d.]+\s+([\d,]+)", printed
        ).groups()
        assert float(bleu) >= 90
        assert pairs == "1,000"
    accuracy = re.search(r"([\d.]+)% of 500 ambiguous", printed)
    assert float(accuracy[1]) >= 95
    assert "L'animal n'a pas traversé la rue parce qu'il était trop fatigué." in printed
    assert "L'animal n'a pas traversé la rue parce qu'elle était trop large." in printed


def test_demo_model_has_the_printed_scores(demo, sentences: Corpus) -> None:
    translator = load(demo.folder)
    held_out = sentences.dev[:300]
    for source, target, to in (("french", "english", "en"), ("english", "french", "fr")):
        outputs = translator.translate([getattr(pair, source) for pair in held_out], to)
        scored = score_translations(outputs, [getattr(pair, target) for pair in held_out])
        assert scored["bleu"] >= 88
    outputs = translator.translate([pair.english for pair in sentences.pronouns], "fr")
    assert pronoun_accuracy(outputs, [pair.pronoun for pair in sentences.pronouns]) >= 0.95


def test_language_of_every_line_is_identified(demo) -> None:
    english, french = "The animal didn't cross the street.", "L'animal n'a pas traversé la rue."
    assert load(demo.folder).translate([english, "", french]) == [french, "", english]


def test_run_folder_has_the_model_and_its_documents(demo) -> None:
    names = {path.name for path in demo.folder.iterdir()}
    assert names == {
        *("README.md", "recipe.yaml", "training.json", "ledger.json", "metrics.jsonl"),
        *("model.json", *(run_folder.path_of(demo.folder, name).name for name in MODEL_FILES)),
        *("loss.svg", "perplexity.svg", "bleu.svg", "chrf.svg"),
        *("tensorboard", "checkpoints", "attention.html"),
    }
    card = (demo.folder / "README.md").read_text()
    assert "fr → en" in card
    metrics = (demo.folder / "metrics.jsonl").read_text().splitlines()
    losses = [event["loss"] for event in map(json.loads, metrics) if "loss" in event]
    assert losses[-1] < losses[0] / 3


def test_second_demo_uses_the_trained_model_and_asks_at_a_terminal(demo) -> None:
    weights = run_folder.path_of(demo.folder, run_folder.WEIGHTS)
    before = weights.stat().st_mtime_ns
    terminal, ours = os.openpty()
    command = [sys.executable, "-m", "regard", "demo", "--run", str(demo.folder)]
    process = subprocess.Popen(command, stdin=ours, stdout=ours, stderr=ours, close_fds=True)
    os.close(ours)
    printed = ""
    while part := _read(terminal):
        printed += part
        if "goes on): " in printed and "Merci" not in printed:
            os.write(terminal, b"Merci beaucoup.\n")
    os.close(terminal)
    assert process.wait(timeout=60) == 0, printed
    assert re.search(r"[Tt]hank", printed)
    assert "Using the trained model in" in printed
    assert weights.stat().st_mtime_ns == before


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except OSError:  # the process has ended
        return ""


def test_low_scores_are_an_error() -> None:
    good, bad = (
        {"a": {"bleu": 95.0}, "b": {"bleu": 91.0}},
        {"a": {"bleu": 95.0}, "b": {"bleu": 12.0}},
    )
    _check(good, 0.96)
    with pytest.raises(TrainingError, match=r"BLEU 12\.0 \(at least 90 expected\)"):
        _check(bad, 0.99)
    with pytest.raises(TrainingError, match=r"pronouns 80\.0%"):
        _check(good, 0.8)


def test_page_has_the_sentence(demo) -> None:
    page = (demo.folder / "attention.html").read_text()
    assert json.dumps(TIRED) in page
    assert WIDE not in page


def test_progress_is_lines_without_a_terminal(demo) -> None:
    assert not {"\x1b", "\r"} & set(demo.result.err)
    assert "\nTraining: 100%, step " in demo.result.err
    assert demo.result.out == ""


def test_error_names_a_folder_that_cannot_be_written(call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = call("demo", "--run", tmp_path / "file" / "run")
    assert result.code == 1
    assert "cannot be written" in result.err
