"""Data sets by name from the command line: `regard data`, and recipes that name them."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.data.datasets.server import FileServer, file_server

from regard.data.datasets import catalog

from .conftest import Call

PAIRS = "".join(f"le chat {n} dort\tthe cat {n} sleeps\n" for n in range(60)).encode()
RECIPE = {
    "data": {"train": {"kind": "dataset", "name": "cats", "languages": ["en", "fr"]}},
    "tokenizer": {"kind": "bpe", "vocabulary": 300},
    "model": {"kind": "encoder-decoder", "size": "tiny", "max_length": 32},
    "training": {"steps": 1, "batch_tokens": 200},
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Serve a data set of a catalog of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", "")
    monkeypatch.setattr("regard.data.datasets.download.PAUSE", 0.0)
    monkeypatch.setattr(catalog, "FOLDER", tmp_path / "catalog")
    catalog.dataset_named.cache_clear()
    with file_server() as running:
        running.pages["/cats.tsv"] = PAIRS
        about = {"title": "cats", "task": "translation", "license": "CC0", "citation": "the cats"}
        file = {"path": "train.tsv.gz", "bytes": len(PAIRS), "url": f"{running.address}/cats.tsv"}
        content = {
            **about,
            "homepage": "https://cats.example",
            "languages": ["fr", "en"],
            "files": [{**file, "sha256": hashlib.sha256(PAIRS).hexdigest()}],
            "splits": {"train": {"kind": "tsv", "path": "train.tsv.gz", "columns": [0, 1]}},
        }
        (tmp_path / "catalog").mkdir()
        (tmp_path / "catalog" / "cats.yaml").write_text(yaml.safe_dump(content))
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
        yield running
    catalog.dataset_named.cache_clear()


def test_data_sets_are_listed_found_and_downloaded(
    call: Call, server: FileServer, tmp_path: Path
) -> None:
    result = call("data")
    assert result.code == 0
    words = ["cats", "translation", "fr", "en", "0.0", "CC0", "get"]
    assert result.out.splitlines()[1].split() == words
    result = call("data", "where", "cats")
    assert result.code == 1
    assert result.err == (
        "regard: data set cats is not here: `regard data get cats` downloads it.\n"
    )
    assert server.asked == []
    server.cuts = [100]
    result = call("data", "get", "cats")
    assert result.code == 0, result.err
    folder = tmp_path / "cache/data/cats"
    assert result.out == (f"cats: 1 file in {folder}, checked.\nLicense: CC0. Cite the cats.\n")
    assert call("data", "where", "cats").out == f"{folder}\n"
    assert call("data", "list").out.splitlines()[1].split()[-1] == "yes"
    assert len(server.asked) == 2


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["get", "cat"], "there is no data set 'cat', did you mean 'cats'?; data sets: cats."),
        (["get"], "`regard data get` needs the name of a data set: `regard data list`."),
        (["list", "cats"], "`regard data list` lists all data sets; leave out the names."),
    ],
)
def test_wrong_names_are_refused(call: Call, arguments: list[str], sentence: str) -> None:
    result = call("data", *arguments)
    assert (result.code, result.err) == (1, f"regard: {sentence}\n")


def test_training_downloads_and_checking_does_not(
    call: Call, server: FileServer, tmp_path: Path
) -> None:
    result = call("check", "recipe.yaml")
    assert result.code == 1
    assert result.err == (
        "regard: data.train: data set cats is not here: `regard data get cats` downloads it.\n"
    )
    assert server.asked == []
    result = call("train", "recipe.yaml", "--run", "run")
    assert result.code == 0, result.err
    assert len(server.asked) == 1
    card = (tmp_path / "run" / "README.md").read_text()
    assert card.endswith("and which.\n\nData set cats (CC0): cite the cats.\n")
    written = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["data"]["train"]
    assert written == [
        {
            "kind": "dataset",
            "weight": 1.0,
            "name": "cats",
            "split": "train",
            "languages": ["en", "fr"],
            "settings": {},
        }
    ]


def test_a_run_is_resumed_with_its_data_elsewhere(
    call: Call, server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("train", "recipe.yaml", "--run", "run").code == 0
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "elsewhere"))
    (tmp_path / "cache/data").rename(tmp_path / "elsewhere")
    server.asked.clear()
    result = call("resume", "run", "training.steps=2")
    assert result.code == 0, result.err
    assert server.asked == []


def test_damage_and_no_network_are_one_sentence(
    call: Call, server: FileServer, tmp_path: Path
) -> None:
    server.pages["/cats.tsv"] = PAIRS[:-7]
    result = call("train", "recipe.yaml")
    assert result.code == 1
    assert result.err.startswith(
        f"regard: data.train: data set cats is not here and {server.address}/cats.tsv cannot be "
        f"downloaded (it has another checksum than the catalog, "
    )
    assert result.err.endswith(
        f": try again, or put train.tsv.gz into {tmp_path}/cache/data/cats (or into cats in a "
        f"folder of REGARD_DATA).\n"
    )
    folder = tmp_path / "cache/data/cats"
    folder.mkdir(parents=True)
    (folder / "train.tsv.gz").write_bytes(PAIRS[:-7])
    result = call("check", "recipe.yaml")
    assert result.code == 1
    assert f"regard: data.train: {folder}/train.tsv.gz: is not the file of data set" in result.err


def test_the_command_starts_without_torch() -> None:
    code = (
        "import sys; sys.argv = ['regard', 'data']\n"
        "from regard.cli import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "multi30k" in done.stdout
