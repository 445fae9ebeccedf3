"""Classifiers on the command line: of texts with one label, of pairs with several labels."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from regard import run_folder
from regard.training.recipe import make_recipe
from regard.training.trainer import train

WORDS = {"sport": ["ball", "goal", "team"], "money": ["bank", "coin", "market"]}
PLAIN = ["the", "a", "of", "and", "it", "was", "there", "then"]


def sentence(rng: random.Random, labels: Sequence[str]) -> str:
    words = [rng.choice(WORDS[label]) for label in labels for _ in range(2)]
    words += rng.choices(PLAIN, k=4)
    return " ".join(rng.sample(words, len(words)))


def trained(folder: Path, lines: Sequence[str], source: dict[str, Any], **task: Any) -> Path:
    (folder / "data.tsv").write_text("".join(lines))
    content = {
        "task": {"kind": "classification", **task},
        "data": {
            "train": {"kind": "labeled", "path": str(folder / "data.tsv"), **source},
            "dev_size": 30,
            "prepared": str(folder / "prepared"),
        },
        "tokenizer": {"kind": "word", "vocabulary": 300},
        "model": {
            "kind": "classifier",
            "dim": 32,
            "heads": 2,
            "ffn_dim": 64,
            "layers": 1,
            "dropout": 0.0,
            "max_length": 48,
            "pooling": "attention",
        },
        "training": {
            "steps": 60,
            "batch_tokens": 500,
            "optimizer": {"learning_rate": 0.02},
            "evaluation": {"every": 30, "metric": "macro_f1"},
        },
    }
    (folder / "recipe.yaml").write_text(json.dumps(content))
    train(make_recipe(content, (), "recipe"), folder / "run")
    return folder


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(1)
    labels = [rng.choice(list(WORDS)) for _ in range(600)]
    lines = [f"{sentence(rng, [label])}\t{label}\n" for label in labels]
    return trained(tmp_path_factory.mktemp("single"), lines, {}, balance=True)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train on pairs of texts: the labels of both, or none."""
    rng = random.Random(2)
    lines = []
    for _ in range(700):
        sides = [[label for label in WORDS if rng.random() < 0.3] for _ in range(2)]
        texts = "\t".join(sentence(rng, side) for side in sides)
        lines.append(f"{texts}\t{';'.join(sorted({*sides[0], *sides[1]})) or '-'}\n")
    source = {"columns": [0, 1, 2], "labels": {"separator": ";", "none": "-"}}
    return trained(tmp_path_factory.mktemp("pairs"), lines, source, calibrate=False)


def test_every_line_is_labeled(single: Path, call, tmp_path: Path) -> None:
    text = "the team and a goal\n\nit was the bank of coin\n"
    result = call("classify", single / "run", stdin=text.encode())
    assert result.code == 0
    first, empty, last = result.out.removesuffix("\n").split("\n")
    assert (first.split("\t")[0], empty, last.split("\t")[0]) == ("sport", "", "money")
    assert 0.5 < float(first.split("\t")[1]) <= 1
    (tmp_path / "text").write_text(text)
    assert call("classify", single / "run", tmp_path / "text").out == result.out
    both = call("classify", single / "run", "--text", "the team and a goal", "--all")
    first_label, p, second_label, q = both.out.split()
    assert (first_label, second_label) == ("sport", "money")
    assert float(p) + float(q) == pytest.approx(1, abs=1e-3)
    lines = call("classify", single / "run", tmp_path / "text", "--json", "--all").out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["label"] for row in rows] == ["sport", None, "money"]
    assert set(rows[0]["probabilities"]) == {"sport", "money"}


def test_more_lines_than_one_chunk(single: Path, call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.predictors.resume_file.CHUNK", 3)
    lines = ["a goal", "the coin", "", "bank", "team", "ball"] * 2
    outputs = call("classify", single / "run", stdin="\n".join(lines).encode()).out.splitlines()
    expected = ["sport", "money", "", "money", "sport", "sport"] * 2
    assert [line.split("\t")[0] for line in outputs] == expected


def test_pairs_have_several_labels_or_none(pairs: Path, call) -> None:
    text = b"the ball and goal\ta bank of coin\nit was there\tthen the\n"
    result = call("classify", pairs / "run", stdin=text)
    assert result.code == 0, result.err
    both, none = result.out.splitlines()
    assert set(both.split("\t")[0].split(";")) == {"sport", "money"}
    assert none.split("\t") == ["-", ""]
    second = json.loads(call("classify", pairs / "run", "--json", stdin=text).out.splitlines()[1])
    assert second["labels"] == []
    assert max(second["probabilities"].values()) < 0.5
    all_labels = call("classify", pairs / "run", "--threshold", 0, stdin=text).out.splitlines()
    assert set(all_labels[1].split("\t")[0].split(";")) == {"sport", "money"}


@pytest.mark.parametrize(
    ("fixture", "arguments", "text", "message"),
    [
        (
            "pairs",
            [],
            b"a ball\tb\na ball\n",
            "line 2: this model classifies pairs of texts",
        ),
        ("single", [], b"fine\n" + b"word " * 60, "line 2: there are .* takes 48: shorten it"),
        ("single", [], b"", "there is no text to label"),
        ("single", [__file__, "--text", "a"], b"", "give --text or a FILE, not both"),
        ("single", ["nowhere.txt"], b"", "nowhere.txt: cannot be read"),
        ("single", ["--template", "{text} It"], b"a", "a classifier has its own labels"),
    ],
)
def test_errors_are_one_sentence(
    request: pytest.FixtureRequest,
    call,
    fixture: str,
    arguments: list[str],
    text: bytes,
    message: str,
) -> None:
    result = call("classify", request.getfixturevalue(fixture) / "run", *arguments, stdin=text)
    assert result.code == 1
    assert len(result.err.strip().splitlines()) == 1
    assert re.search(message, result.err), result.err


def test_run_folder_has_scores_card_and_figures(single: Path, pairs: Path) -> None:
    for folder, several in ((single, False), (pairs, True)):
        details = run_folder.read(folder / "run").details
        assert details["scores"]["accuracy"] > 0.85
        assert set(details["scores"]["labels"]) == {"money", "sport"}
        assert (details["temperature"] == 1) is several  # calibrate was off for the pairs
        card = (folder / "run" / "README.md").read_text()
        assert "95 % interval" in card
        targets = details["training"]["target_tokens"]
        texts = targets // 2 if several else targets  # two labels are two decisions a text
        assert f"({texts:,} texts, a minute)" in card
        assert ("Probabilities are the model's own" in card) is several
        for name in ("confusion.svg", "calibration.svg", "confusion.tsv", "macro_f1.svg"):
            assert (folder / "run" / name).is_file()
        assert (folder / "run" / "micro_f1.svg").is_file() is several
    rows = (pairs / "run" / "confusion.tsv").read_text().splitlines()
    assert rows[0] == "label\tprediction\ttexts"


def test_look_heads_and_check_of_pairs(pairs: Path, call) -> None:
    look = call("look", pairs / "run", "the team\ta bank")
    assert look.code == 0, look.err
    assert "team" in look.out
    heads = call("heads", pairs / "run", pairs / "data.tsv", "--max-lines", 60)
    assert heads.code == 0, heads.err
    check = call("check", pairs / "recipe.yaml")
    assert check.code == 0, check.out + check.err
