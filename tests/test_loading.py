"""Loading refuses run folders that would compute something else, with one sentence."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import RegardError

FIXTURES = Path(__file__).parent / "fixtures" / "format-1"

Edit = Callable[[dict[str, Any]], None]


def edited(folder: Path, name: str, edit: Edit, part: str = "model.json") -> Path:
    """Copy a run of format 1, edit one of its JSON files, and correct the checksum."""
    shutil.copytree(FIXTURES / name, folder)
    content = json.loads((folder / part).read_text(encoding="utf-8"))
    edit(content)
    (folder / part).write_text(json.dumps(content), encoding="utf-8")
    if part != "model.json":
        manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        manifest["sha256"][part] = hashlib.sha256((folder / part).read_bytes()).hexdigest()
        (folder / "model.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def refusal(folder: Path) -> str:
    """Return the sentence with which loading refuses a folder."""
    with pytest.raises(RegardError) as caught:
        regard.load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("token", [10**6, -1, 10**30, 1.5, "2", True, None])
@pytest.mark.parametrize("role", ["pad", "start", "end"])
def test_ids_of_roles_are_in_the_vocabulary(tmp_path: Path, role: str, token: object) -> None:
    folder = edited(tmp_path / "run", "translator", lambda m: m["details"].update({role: token}))
    assert f"details.{role}" in refusal(folder)


@pytest.mark.parametrize(
    ("run", "key"), [("language-model-window", "begin"), ("translator", "never")]
)
def test_ids_of_details_are_in_the_vocabulary(tmp_path: Path, run: str, key: str) -> None:
    folder = edited(tmp_path / "run", run, lambda m: m["details"].update({key: [3, 10**6]}))
    assert "outside the model's vocabulary" in refusal(folder)


def test_a_tokenizer_larger_than_the_embedding_is_refused(tmp_path: Path) -> None:
    def add_piece(content: dict[str, Any]) -> None:
        content["model"]["vocab"]["zebra"] = max(content["model"]["vocab"].values()) + 1

    folder = edited(tmp_path / "run", "translator", add_piece, "tokenizer.json")
    assert "the piece 'zebra' has the id" in refusal(folder)


@pytest.mark.parametrize("run", ["translator", "masked", "span"])
def test_special_tokens_are_in_the_vocabulary(tmp_path: Path, run: str) -> None:
    def move_last(content: dict[str, Any]) -> None:
        token = content["added_tokens"][-1]
        vocabulary = content["model"]["vocab"]
        vocabulary["filler"] = vocabulary.pop(token["content"])
        token["id"] = len(vocabulary)

    folder = edited(tmp_path / "run", run, move_last, "tokenizer.json")
    assert "the special token" in (sentence := refusal(folder))
    assert "outside the model's vocabulary" in sentence


def test_a_special_token_without_a_role_may_be_outside(tmp_path: Path) -> None:
    def add_token(content: dict[str, Any]) -> None:
        token = {**content["added_tokens"][0], "content": "<spare>", "id": 900}
        content["added_tokens"].append(token)

    folder = edited(tmp_path / "run", "translator", add_token, "tokenizer.json")
    translator = regard.load_translator(folder)
    assert max(translator.tokenizer.encode("<spare>")) < 900


def test_two_pieces_with_one_id_are_refused(tmp_path: Path) -> None:
    def repeat(content: dict[str, Any]) -> None:
        content["model"]["vocab"]["zebra"] = content["model"]["vocab"]["<0x41>"]

    folder = edited(tmp_path / "run", "translator", repeat, "tokenizer.json")
    assert "both have the id" in refusal(folder)


def test_ids_far_beyond_the_pieces_are_refused(tmp_path: Path) -> None:
    def spread(content: dict[str, Any]) -> None:
        content["model"]["vocab"]["zebra"] = 2**32 - 1

    folder = edited(tmp_path / "run", "translator", spread, "tokenizer.json")
    assert "the last id must be below" in refusal(folder)
