"""regard fill: masked language models and span fillers."""

import json
from pathlib import Path

import pytest

from regard import run_folder
from regard.data.batches.spans import sentinel
from regard.data.tokenizers import bpe
from regard.data.tokenizers.tokenizer import Tokenizer

from .conftest import Call
from .random_run import write_random_run

LINES = ["The animal didn't cross the street because it was too tired."] * 3
KINDS = {"masked-lm": "masked-lm", "span-corruption": "encoder-decoder"}


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run folder of a filler with random weights."""
    sizes = {"size": "tiny", "dim": 32, "ffn_dim": 32, "max_length": 30}
    return write_random_run(
        tmp_path_factory.mktemp("filler") / "run",
        request.param,
        {"kind": KINDS[request.param], **sizes},
        bpe.Spec(vocabulary=400).train(LINES, ["mask", *map(sentinel, range(5))]),
        {"max_length": 30, "sentinels": 5},
    )


def test_fillings_have_probabilities(run: Path, call: Call) -> None:
    result = call("fill", run, "The [MASK] crossed the street", "--top", 3)
    assert result.code == 0
    lines = [line.split("\t") for line in result.out.splitlines()]
    assert len(lines) == 3
    assert all(share.endswith("%") and filling for share, filling in lines)
    result = call("fill", run, "The ___ crossed the ___", "--top", 2)
    assert [line.split("\t")[0] for line in result.out.splitlines()] == ["1", "1", "2", "2"]


def test_json_has_the_fillings_of_every_line(run: Path, call: Call) -> None:
    text = b"The <mask> crossed\n___ and [MASK]\n"
    result = call("fill", run, "--json", "--top", 2, stdin=text)
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["text"] for row in rows] == text.decode().splitlines()
    assert [len(row["blanks"]) for row in rows] == [1, 2]
    for row in rows:
        for blank in row["blanks"]:
            assert len(blank) == 2
            assert blank[0]["probability"] >= blank[1]["probability"] > 0
    plain_result = call("fill", run, "--top", 1, stdin=text)
    assert plain_result.out.splitlines()[0] == "The <mask> crossed"


def test_errors_are_one_sentence(run: Path, call: Call, tmp_path: Path) -> None:
    for arguments, message in (
        ((run, "The animal"), "text 1 has no blank: write [MASK], <mask> or ___ where"),
        ((run, "The ___" + " animal" * 40), "tokens and this model takes 30: shorten it"),
        ((tmp_path, "The ___"), "no model.json"),
    ):
        result = call("fill", *arguments)
        assert result.code == 1
        assert message in result.err
        assert result.err.count("\n") == 1
        assert not result.out
    result = call("fill", run, stdin=b"The ___\nThe cat\n")
    assert result.code == 1
    assert "text 2 has no blank" in result.err
    assert call("fill", run, "The ___", "--top", 0).code == 2


def test_an_encoder_is_refused(run: Path, call: Call, tmp_path: Path) -> None:
    other = write_random_run(
        tmp_path / "encoder",
        "encoder",
        {"kind": "encoder", "size": "tiny", "dim": 32},
        Tokenizer.from_json(run_folder.read(run).tokenizer),
        {"max_length": 30},
    )
    result = call("fill", other, "The ___")
    assert result.code == 1
    assert (
        "holds an encoder, not a masked language model; choose a run folder made by" in result.err
    )


def test_look_heads_and_score_of_a_filler(run: Path, call: Call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = call("look", run, "The [MASK] crossed the street", "-o", page)
    assert result.code == 0, result.err
    assert page.is_file()
    lines = tmp_path / "lines.txt"
    lines.write_text("The animal crossed the street.\nIt was too tired.\n" * 2)
    result = call("heads", run, lines, "-o", tmp_path / "heads")
    assert result.code == 0, result.err
    study = json.loads((tmp_path / "heads" / "heads.json").read_text())
    assert study
    result = call("score", run, lines)
    if run_folder.read(run).task == "masked-lm":
        assert len(result.out.splitlines()) == 4
    else:
        assert result.code == 1
