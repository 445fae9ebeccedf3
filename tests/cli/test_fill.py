"""regard fill, as a user calls it."""

import json
from pathlib import Path

import pytest
import torch

from regard import run_folder
from regard.config import plain
from regard.data.batches.spans import sentinel
from regard.data.tokenizers import bpe
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

from .conftest import Call

LINES = ["The animal didn't cross the street because it was too tired."] * 3
KINDS = {"masked-lm": "masked-lm", "span-corruption": "encoder-decoder"}


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filler with weights of chance."""
    spec = ModelSpec.model_validate(
        {"kind": KINDS[request.param], "size": "tiny", "dim": 32, "ffn_dim": 32, "max_length": 30}
    )
    torch.manual_seed(0)
    tokenizer = bpe.Spec(vocabulary=400).train(LINES, ["mask", *map(sentinel, range(5))])
    folder = tmp_path_factory.mktemp("filler") / "run"
    made = run_folder.Run(
        task=request.param,
        model=plain(spec),
        vocabulary=len(tokenizer),
        details={"max_length": 30, "sentinels": 5},
        weights=weights_of(spec.build(len(tokenizer))),
        tokenizer=tokenizer.to_json(),
        extra_files={},
        documents={},
    )
    run_folder.write(made, folder)
    return folder


def test_words_and_their_probabilities(run: Path, call: Call) -> None:
    answer = call("fill", run, "The [MASK] crossed the street", "--top", 3)
    assert answer.code == 0
    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert len(lines) == 3
    assert all(share.endswith("%") and word for share, word in lines)
    answer = call("fill", run, "The ___ crossed the ___", "--top", 2)
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == ["1", "1", "2", "2"]


def test_line_by_line_as_json(run: Path, call: Call) -> None:
    given = b"The <mask> crossed\n___ and [MASK]\n"
    answer = call("fill", run, "--json", "--top", 2, stdin=given)
    found = [json.loads(line) for line in answer.out.splitlines()]
    assert [each["text"] for each in found] == given.decode().splitlines()
    assert [len(each["blanks"]) for each in found] == [1, 2]
    for each in found:
        for blank in each["blanks"]:
            assert len(blank) == 2
            assert blank[0]["probability"] >= blank[1]["probability"] > 0
    plain_answer = call("fill", run, "--top", 1, stdin=given)
    assert plain_answer.out.splitlines()[0] == "The <mask> crossed"


def test_mistakes_are_told_in_one_sentence(run: Path, call: Call, tmp_path: Path) -> None:
    for arguments, complaint in (
        ((run, "The animal"), "text 1 has no blank: write [MASK], <mask> or ___ where"),
        ((run, "The ___" + " animal" * 40), "tokens and this model takes 30: shorten it"),
        ((tmp_path, "The ___"), "no model.json"),
    ):
        answer = call("fill", *arguments)
        assert answer.code == 1
        assert complaint in answer.err
        assert answer.err.count("\n") == 1
        assert not answer.out
    answer = call("fill", run, stdin=b"The ___\nThe cat\n")
    assert answer.code == 1
    assert "text 2 has no blank" in answer.err
    assert call("fill", run, "The ___", "--top", 0).code == 2


def test_other_models_fill_nothing(run: Path, call: Call, tmp_path: Path) -> None:
    found = run_folder.read(run)
    encoder = ModelSpec.model_validate({"kind": "encoder", "size": "tiny", "dim": 32})
    weights = weights_of(encoder.build(found.vocabulary))
    other = run_folder.Run("encoder", plain(encoder), found.vocabulary, {"max_length": 30}, weights,
                     found.tokenizer, {}, {})  # fmt: skip
    run_folder.write(other, tmp_path / "reader")
    answer = call("fill", tmp_path / "reader", "The ___")
    assert answer.code == 1
    assert (
        "holds an encoder, not a masked language model; choose a run folder made by" in answer.err
    )


def test_a_filler_is_looked_into_scored_and_its_heads_studied(
    run: Path, call: Call, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    answer = call("look", run, "The [MASK] crossed the street", "-o", page)
    assert answer.code == 0, answer.err
    assert page.is_file()
    lines = tmp_path / "lines.txt"
    lines.write_text("The animal crossed the street.\nIt was too tired.\n" * 2)
    answer = call("heads", run, lines, "-o", tmp_path / "heads")
    assert answer.code == 0, answer.err
    study = json.loads((tmp_path / "heads" / "heads.json").read_text())
    assert study
    answer = call("score", run, lines)
    if run_folder.read(run).task == "masked-lm":
        assert len(answer.out.splitlines()) == 4
    else:
        assert answer.code == 1
