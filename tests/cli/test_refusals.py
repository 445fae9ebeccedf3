"""Refusals: before torch is imported where they need none, with the nearest name or an example."""

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_TORCH = """
import sys
from regard.cli import main

for line in sys.stdin.read().splitlines():
    sys.argv = ["regard", *line.split("|")]
    try:
        main()
    except SystemExit as done:
        assert done.code == 1, line
    assert "torch" not in sys.modules, line
"""

TSV = "le chat 1\tthe cat 1\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "train.tsv").write_text(TSV * 30)
    (tmp_path / "dev.tsv").write_text(TSV)
    path = tmp_path / "words.yaml"
    path.write_text(
        "data:\n"
        f"  train: {{kind: tsv, path: {tmp_path}/train.tsv, languages: [fr, en]}}\n"
        f"  dev: {{kind: tsv, path: {tmp_path}/dev.tsv, languages: [fr, en]}}\n"
        f"  prepared: {tmp_path}/prepared\n"
    )
    return path


def test_refusals_that_need_no_torch_do_not_import_it(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    commands = [
        f"train|{tmp_path}/nowhere.yaml",
        f"check|{tmp_path}/nowhere.yaml",
        f"train|{recipe}|nonsense",
        f"train|{recipe}|data.trian=1",
        f"train|{recipe}|data.train.path={tmp_path}/trian.tsv",
        f"check|{recipe}|data.dev.kind=tvs",
        "resume|nowhere",
        "translate|nowhere|--to|fr",
        f"translate|{tmp_path}/empty",
        "summarize|nowhere",
        "generate|nowhere|--prompt|a",
        "fill|nowhere",
        f"score|nowhere|{recipe}",
        f"evaluate|nowhere|{recipe}",
        "embed|nowhere",
        "classify|nowhere",
        "look|nowhere|text",
        f"heads|nowhere|{recipe}",
        "export|nowhere|--to|onnx",
        "merge|nowhere|-o|x",
        "import|nowhere",
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        input="\n".join(commands),
        text=True,
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == len(commands), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "FOLDER/word.yaml"], "no such recipe, did you mean 'FOLDER/words.yaml'?"),
        (
            ["train", "RECIPE", "data.train.path=FOLDER/trian.tsv"],
            "trian.tsv: cannot be read (No such file or directory), did you mean "
            "'FOLDER/train.tsv'?",
        ),
        (["translate", "FOLDER/preparde"], "no such run folder, did you mean 'FOLDER/prepared'?"),
        (["embed", "FOLDER/runs/one"], "no such run folder; the models in the package are fr-en"),
        (["import", "FOLDER/preparde"], "did you mean 'FOLDER/prepared'?"),
        (
            ["train", "RECIPE", "data.train={kind: tsv, path: train.tsv}"],
            "data.train.0: the key 'languages' is missing (language of each text, as in [fr, en]); "
            "example: {kind: tsv, path: pairs.tsv.gz, languages: [fr, en]}",
        ),
        (["train", "RECIPE", "data=null"], "the key 'data' is missing (sources of the training"),
        (
            ["train", "RECIPE", "attention_history={}"],
            "attention_history: the key 'text' is missing (the text whose attention is recorded); "
            "example: attention_history: {every: 200, text:",
        ),
    ],
)
def test_missing_names_and_keys_come_with_the_nearest_or_an_example(
    call, recipe: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "prepared").mkdir()
    places = {"RECIPE": str(recipe), "FOLDER": str(tmp_path)}
    for name, place in places.items():
        arguments = [argument.replace(name, place) for argument in arguments]
        message = message.replace(name, place)
    done = call(*arguments)
    assert done.code == 1
    assert message in done.err
