"""Fingerprints: what changes the key of a store, and what does not."""

import os
from pathlib import Path
from typing import Any

import pytest

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.store import fingerprint
from regard.data.store.prepare import prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError

LINES = "".join(f"le chat {n}\tthe cat {n}\n" for n in range(40))


def data(folder: Path, changes: dict[str, Any] | None = None, **source: Any) -> DataSpec:
    train = {"kind": "tsv", "path": str(folder / "train.tsv"), "languages": ["fr", "en"], **source}
    given = {"train": train, "prepared": str(folder / "prepared"), **(changes or {})}
    return validate(DataSpec, given, "recipe")


def tokenizer(**given: Any) -> TokenizerSpec:
    return validate(TokenizerSpec, {"kind": "bpe", "vocabulary": 400, **given}, "recipe")


def key(spec: DataSpec, cut: TokenizerSpec | None = None, limit: int = 64) -> str:
    return fingerprint.take_fingerprint(spec, cut or tokenizer(), limit).key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.tsv").write_text(LINES)
    return tmp_path


def test_key_changes_with_every_setting_of_the_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [
        key(data(folder)),
        key(data(folder), limit=65),
        key(data(folder), tokenizer(vocabulary=401)),
        key(data(folder), tokenizer(kind="unigram")),
        key(data(folder, columns=[1, 0])),
        key(data(folder, {"dev_size": 7})),
        key(data(folder, {"filters": {"max_ratio": 3}})),
        key(data(folder, {"test": "grammar"})),
    ]
    (folder / "train.tsv").write_text(LINES.replace("7", "8"))
    keys.append(key(data(folder)))
    monkeypatch.setattr("tokenizers.__version__", "0.0")
    keys.append(key(data(folder)))
    assert len(set(keys)) == len(keys)


def test_key_ignores_settings_applied_after_building(folder: Path) -> None:
    same = key(data(folder))
    assert key(data(folder, weight=3)) == same
    assert key(data(folder, {"directions": ["fr-en"]})) == same
    assert key(data(folder, {"filters": {"max_dropped": 0.5}})) == same
    assert key(data(folder, {"prepared": str(folder / "elsewhere")})) == same


def test_key_of_running_text_ignores_the_length_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n" * 3)
    train = {"kind": "text", "path": str(tmp_path / "a.txt")}
    spec = validate(DataSpec, {"train": train, "prepared": str(tmp_path)}, "recipe")
    assert key(spec, limit=10) == key(spec, limit=20)


def test_unchanged_files_are_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "train.tsv"
    os.utime(path, (1e9, 1e9))
    prepare(data(folder), tokenizer(), 64)
    read: list[str] = []
    digest = fingerprint.hashlib.file_digest

    def watched(file: Any, name: str) -> Any:
        read.append(file.name)
        return digest(file, name)

    monkeypatch.setattr(fingerprint.hashlib, "file_digest", watched)
    assert prepare(data(folder), tokenizer(), 64).reused
    assert read == []
    os.utime(path, (1.1e9, 1.1e9))  # touched: read once more, found equal, and known again
    assert prepare(data(folder), tokenizer(), 64).reused
    assert prepare(data(folder), tokenizer(), 64).reused
    assert read == [str(path)]


def test_recently_changed_file_is_read_again(folder: Path) -> None:
    path = folder / "train.tsv"
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    before = key(data(folder))
    prepare(data(folder), tokenizer(), 64)
    path.write_text(LINES.replace("7", "8"))
    os.utime(path, ns=times)  # as if the clock of the disk were coarse
    assert key(data(folder)) != before


def test_file_that_changes_while_being_read_is_reported(folder: Path) -> None:
    taken = fingerprint.take_fingerprint(data(folder), tokenizer(), 64)
    taken.check_unchanged()
    (folder / "train.tsv").write_text(LINES * 2)
    with pytest.raises(DataError, match=r"train\.tsv: changed while it was being read"):
        taken.check_unchanged()


def test_missing_file_is_reported(folder: Path) -> None:
    (folder / "train.tsv").unlink()
    with pytest.raises(DataError, match=r"train\.tsv: cannot be read \(No such file"):
        key(data(folder))
