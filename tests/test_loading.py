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


def details(**changes: object) -> Edit:
    return lambda manifest: manifest["details"].update(changes)


def settings(**changes: object) -> Edit:
    return lambda manifest: manifest["model"].update(changes)


@pytest.mark.parametrize(
    ("run", "edit", "named"),
    [
        ("translator", details(max_length=0), "details.max_length"),
        ("translator", details(max_length=10**30), "details.max_length"),
        ("translator", details(max_length="48"), "details.max_length"),
        ("translator", details(max_length=4800), "details.max_length"),
        ("translator", details(directions=[]), "details.directions"),
        ("translator", details(directions=["fr-en"]), "details.directions.0"),
        ("translator", details(directions=["de → en"]), "languages.json"),
        ("translator", details(directions=["fr → de", "fr → en"]), "<de>"),
        ("translator", details(never="x"), "details.suppressed_tokens"),
        ("summarizer", details(says=-1), "details.max_summary_tokens"),
        ("summarizer", details(source=0), "details.truncate_source"),
        ("classifier", details(labels=["a", "a", "b"]), "details.labels"),
        ("classifier", details(labels=["a", "b"]), "details.labels"),
        ("classifier", details(labels={}), "details.labels"),
        ("classifier", details(temperature=0), "details.temperature"),
        ("classifier", details(temperature=float("nan")), "details.temperature"),
        ("classifier", details(sides=3), "details.num_texts"),
        ("classifier", details(written={"x": 1}), "details.label_format"),
        ("encoder", details(pooling="best"), "details.pooling"),
        ("encoder", details(normalise=1), "details.normalize"),
        ("span", details(sentinels=10**9), "details.sentinels"),
        ("span", details(sentinels=9), "<extra_8>"),
        ("lora", details(adapter=[]), "model.json"),
        ("lora", details(adapter={"spec": {"on": []}}), "details.adapter.base"),
        ("translator", settings(dim=10**30), "model: dim"),
        ("translator", settings(dim=1 << 20), "model.safetensors"),
        ("translator", settings(layers=10**9), "model: layers"),
        ("translator", settings(kind="language-model"), "model.json"),
        ("translator", lambda m: m.update(vocabulary=10**9), "vocabulary"),
        ("translator", lambda m: m.update(vocabulary=379), "model.json"),
        ("translator", lambda m: m.update(job="masked"), "task"),
        ("translator", lambda m: m.update(job="other"), "other"),
        ("translator", lambda m: m.update(sha256=[]), "sha256"),
        ("translator", lambda m: m["sha256"].pop("tokenizer.json"), "tokenizer.json"),
        ("translator", lambda m: m["sha256"].pop("languages.json"), "languages.json"),
        ("translator", lambda m: m.update(format=True), "format"),
    ],
)
def test_values_of_another_type_are_named(tmp_path: Path, run: str, edit: Edit, named: str) -> None:
    assert named in refusal(edited(tmp_path / "run", run, edit))


@pytest.mark.parametrize(
    "content",
    [[], {}, {"fr": []}, {"fr": {"x": 1}}, {"fr": {"1": -1}, "en": {}}, {"fr": {"1": 1.5}}],
)
def test_damaged_language_counts_are_named(tmp_path: Path, content: object) -> None:
    folder = edited(tmp_path / "run", "translator", lambda _: None)
    text = json.dumps(content)
    (folder / "languages.json").write_text(text)
    manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    manifest["sha256"]["languages.json"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(manifest))
    assert "languages.json" in refusal(folder)


def adapter_of(base: str) -> Edit:
    return lambda manifest: manifest["details"]["adapter"].update(base=base)


def test_adapters_in_a_circle_are_refused(tmp_path: Path) -> None:
    edited(tmp_path / "a", "lora", adapter_of("../b"))
    edited(tmp_path / "b", "lora", adapter_of("../a"))
    assert "is itself an adapter" in refusal(tmp_path / "a")


def test_an_adapter_of_itself_is_refused(tmp_path: Path) -> None:
    folder = edited(tmp_path / "a", "lora", adapter_of(str(tmp_path / "a")))
    assert "is itself an adapter" in refusal(folder)


def test_long_chains_of_adapters_are_refused(tmp_path: Path) -> None:
    for number in range(20):
        edited(tmp_path / str(number), "lora", adapter_of(f"../{number + 1}"))
    assert "more than 16 adapters" in refusal(tmp_path / "0")
