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
        key(data(folder, {"filters": {"fix_encoding": True}})),
        key(data(folder, header=True)),
        key(data(folder, encoding="latin-1")),
        key(data(folder, {"test": "grammar"})),
    ]
    (folder / "train.tsv").write_text(LINES.replace("7", "8"))
    keys.append(key(data(folder)))
    keys.append(key(data(folder, {"test": {"kind": "grammar", "seed": 2}})))
    monkeypatch.setattr("tokenizers.__version__", "0.0")
    keys.append(key(data(folder)))
    assert len(set(keys)) == len(keys)


def test_key_ignores_settings_applied_after_building(folder: Path) -> None:
    same = key(data(folder))
    assert key(data(folder, weight=3)) == same
    assert key(data(folder, {"directions": ["fr-en"]})) == same
    assert key(data(folder, {"filters": {"max_dropped": 0.5}})) == same
    assert key(data(folder, directions=["fr-en"])) == same
    assert key(data(folder, {"prepared": str(folder / "elsewhere")})) == same


def test_key_of_running_text_ignores_the_length_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n" * 3)
    train = {"kind": "text", "path": str(tmp_path / "a.txt")}
    spec = validate(DataSpec, {"train": train, "prepared": str(tmp_path)}, "recipe")
    assert key(spec, limit=10) == key(spec, limit=20)


def test_unchanged_files_are_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "train.tsv"
    monkeypatch.setattr(fingerprint, "SETTLED", -1)
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


def test_changed_content_with_the_old_size_and_time_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "SETTLED", -1)  # as if the change came long after
    path, before = folder / "train.tsv", key(data(folder))
    prepare(data(folder), tokenizer(), 64)
    stat = path.stat()
    path.write_text(LINES.replace("7", "8"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    written = key(data(folder))
    assert written != before
    prepare(data(folder), tokenizer(), 64)
    other = folder / "other.tsv"
    other.write_text(LINES.replace("7", "9"))
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(path)
    assert key(data(folder)) not in (before, written)


def test_touched_linked_and_rewritten_files_are_unchanged(folder: Path) -> None:
    path, before = folder / "train.tsv", key(data(folder))
    taken = fingerprint.take_fingerprint(data(folder), tokenizer(), 64)
    os.utime(path)
    os.link(path, folder / "link.tsv")
    taken.check_unchanged()
    path.unlink()
    path.write_text(LINES)
    taken.check_unchanged()
    assert key(data(folder)) == before
    path.unlink()
    with pytest.raises(DataError, match=r"train\.tsv: changed while it was being read"):
        taken.check_unchanged()


def test_key_depends_on_the_content_of_files_and_not_on_their_paths(tmp_path: Path) -> None:
    def by_file(**classes: list[str]) -> str:
        paths = {
            label: [str(tmp_path / name) for name in names] for label, names in classes.items()
        }
        train = {"kind": "by-file", "classes": paths}
        content = {"train": train, "prepared": str(tmp_path / "prepared")}
        return key(validate(DataSpec, content, "recipe"))

    for name in "abc":
        (tmp_path / name).write_text(f"text {name}\n")
    (tmp_path / "copy").write_text("text b\n")
    same = by_file(good=["a", "b"], bad=["c"])
    assert by_file(good=["a", "copy"], bad=["c"]) == same
    others = [
        by_file(good=["a"], bad=["b", "c"]),
        by_file(good=["b", "a"], bad=["c"]),
        by_file(bad=["a", "b"], good=["c"]),
        by_file(good=["a", "b"], bad=["b"]),
        by_file(good=["a"], bad=["b"]),
        by_file(bad=["a"], good=["b"]),
    ]
    assert len({same, *others}) == 7


def test_key_does_not_depend_on_the_version_of_regard(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_grammar = data(folder, {"dev": {"kind": "grammar", "split": "dev"}})
    keys = [key(data(folder)), key(with_grammar)]
    monkeypatch.setattr("importlib.metadata.version", lambda _: "9.9.9")
    assert [key(data(folder)), key(with_grammar)] == keys
    monkeypatch.setattr("regard.data.sources.grammar.bundled.source_hash", lambda: "changed")
    assert key(data(folder)) == keys[0]
    assert key(with_grammar) != keys[1]
