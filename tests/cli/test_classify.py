"""regard classify and all that looks into classifiers: of texts, of pairs with several labels."""

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


def sentence(chance: random.Random, labels: Sequence[str]) -> str:
    words = [chance.choice(WORDS[label]) for label in labels for _ in range(2)]
    words += chance.choices(PLAIN, k=4)
    return " ".join(chance.sample(words, len(words)))


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
    chance = random.Random(1)
    drawn = [chance.choice(list(WORDS)) for _ in range(600)]
    lines = [f"{sentence(chance, [label])}\t{label}\n" for label in drawn]
    return trained(tmp_path_factory.mktemp("single"), lines, {}, balance=True)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts; the labels are those of both, or none."""
    chance = random.Random(2)
    lines = []
    for _ in range(700):
        sides = [[label for label in WORDS if chance.random() < 0.3] for _ in range(2)]
        texts = "\t".join(sentence(chance, side) for side in sides)
        lines.append(f"{texts}\t{';'.join(sorted({*sides[0], *sides[1]})) or '-'}\n")
    source = {"columns": [0, 1, 2], "labels": {"separator": ";", "none": "-"}}
    return trained(tmp_path_factory.mktemp("pairs"), lines, source, calibrate=False)


def test_as_many_lines_out_as_in(single: Path, call, tmp_path: Path) -> None:
    text = "the team and a goal\n\nit was the bank of coin\n"
    answer = call("classify", single / "run", stdin=text.encode())
    assert answer.code == 0
    first, empty, last = answer.out.removesuffix("\n").split("\n")
    assert (first.split("\t")[0], empty, last.split("\t")[0]) == ("sport", "", "money")
    assert 0.5 < float(first.split("\t")[1]) <= 1
    (tmp_path / "text").write_text(text)
    assert call("classify", single / "run", tmp_path / "text").out == answer.out
    both = call("classify", single / "run", "--text", "the team and a goal", "--all")
    likeliest, p, other, q = both.out.split()
    assert (likeliest, other) == ("sport", "money")
    assert float(p) + float(q) == pytest.approx(1, abs=1e-3)
    lines = call("classify", single / "run", tmp_path / "text", "--json", "--all").out.splitlines()
    told = [json.loads(line) for line in lines]
    assert [each["label"] for each in told] == ["sport", None, "money"]
    assert set(told[0]["probabilities"]) == {"sport", "money"}


def test_more_lines_than_are_judged_at_a_time(
    single: Path, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.predictors.resume_file.CHUNK", 3)
    lines = ["a goal", "the coin", "", "bank", "team", "ball"] * 2
    found = call("classify", single / "run", stdin="\n".join(lines).encode()).out.splitlines()
    expected = ["sport", "money", "", "money", "sport", "sport"] * 2
    assert [line.split("\t")[0] for line in found] == expected


def test_pairs_with_several_labels(pairs: Path, call) -> None:
    text = b"the ball and goal\ta bank of coin\nit was there\tthen the\n"
    answer = call("classify", pairs / "run", stdin=text)
    assert answer.code == 0, answer.err
    both, none = answer.out.splitlines()
    assert set(both.split("\t")[0].split(";")) == {"sport", "money"}
    assert none.split("\t") == ["-", ""]
    told = json.loads(call("classify", pairs / "run", "--json", stdin=text).out.splitlines()[1])
    assert told["labels"] == []
    assert max(told["probabilities"].values()) < 0.5
    every = call("classify", pairs / "run", "--threshold", 0, stdin=text).out.splitlines()
    assert set(every[1].split("\t")[0].split(";")) == {"sport", "money"}


@pytest.mark.parametrize(
    ("which", "arguments", "text", "complaint"),
    [
        (
            "pairs",
            [],
            b"a ball\tb\na ball\n",
            "line 2: this model classifies pairs of texts",
        ),
        ("single", [], b"fine\n" + b"word " * 60, "line 2: there are .* takes 48: shorten it"),
        ("single", [], b"", "there is no text to label"),
        ("single", ["file", "--text", "a"], b"", "give --text or a FILE, not both"),
        ("single", ["nowhere.txt"], b"", "nowhere.txt: cannot be read"),
        ("single", ["--template", "{text} It"], b"a", "a classifier has its own labels"),
    ],
)
def test_bad_input_is_one_sentence(
    request: pytest.FixtureRequest, call, which: str, arguments: list[str], text: bytes, complaint
) -> None:
    answer = call("classify", request.getfixturevalue(which) / "run", *arguments, stdin=text)
    assert answer.code == 1
    assert len(answer.err.strip().splitlines()) == 1
    assert re.search(complaint, answer.err), answer.err


def test_the_run_folder_says_what_it_is_worth(single: Path, pairs: Path) -> None:
    for folder, several in ((single, False), (pairs, True)):
        details = run_folder.read(folder / "run").details
        assert details["scores"]["accuracy"] > 0.85
        assert set(details["scores"]["labels"]) == {"money", "sport"}
        assert (details["temperature"] == 1) is several  # calibrate was off for the pairs
        card = (folder / "run" / "README.md").read_text()
        assert "95 % interval" in card
        assert ("Probabilities are the model's own" in card) is several
        for name in ("confusion.svg", "calibration.svg", "confusion.tsv", "macro_f1.svg"):
            assert (folder / "run" / name).is_file()
        assert (folder / "run" / "micro_f1.svg").is_file() is several
    rows = (pairs / "run" / "confusion.tsv").read_text().splitlines()
    assert rows[0] == "label\tprediction\ttexts"


def test_who_looks_into_classifiers_sees_pairs(pairs: Path, call) -> None:
    looked = call("look", pairs / "run", "the team\ta bank")
    assert looked.code == 0, looked.err
    assert "team" in looked.out
    studied = call("heads", pairs / "run", pairs / "data.tsv", "--max-lines", 60)
    assert studied.code == 0, studied.err
    checked = call("check", pairs / "recipe.yaml")
    assert checked.code == 0, checked.out + checked.err
