"""Damaged, moved and concurrently built stores."""

import errno
import os
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.store import prepare as preparing
from regard.data.store.fingerprint import take_fingerprint
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError, RunError

BPE = validate(TokenizerSpec, {"kind": "bpe", "vocabulary": 300}, "recipe")
PAIRS = [f"le chat numéro {n}\tthe cat number {n}" for n in range(60)]


def spec(folder: Path, pairs: list[str] = PAIRS, **changes: Any) -> DataSpec:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("train", pairs[:40]), ("dev", pairs[40:50]), ("test", pairs[50:])):
        if not (folder / f"{name}.tsv").exists():
            (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    splits = {
        split: {"kind": "tsv", "path": str(folder / f"{split}.tsv"), "languages": ["fr", "en"]}
        for split in ("train", "dev", "test")
    }
    return validate(DataSpec, {**splits, "prepared": str(folder / "prepared"), **changes}, "recipe")


def ids(prepared: Prepared) -> list[list[list[int]]]:
    stores = [prepared.train, prepared.dev, prepared.test]
    return [
        [text.tolist() for text in store.row(row)]
        for store in stores
        if store is not None
        for row in range(len(store))
    ]


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    data = spec(tmp_path)
    first = prepare(data, BPE, 100)
    folder, expected = first.folder, ids(first)
    del first
    draw, taken = random.Random(5), take_fingerprint(data, BPE, 100)
    files = sorted(path.name for path in folder.iterdir())
    assert len(files) == 7
    for number in range(60):
        path = folder / files[number % len(files)]
        intact = path.read_bytes()
        content = bytearray(intact)
        content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"{folder}.*damaged"):
            preparing._open(folder, data, BPE, taken, reused=True)
        if number >= len(files):
            path.write_bytes(intact)
            continue
        said: list[str] = []
        again = prepare(data, BPE, 100, said.append)
        assert not again.reused
        assert "It is prepared again." in said[0]
        assert ids(again) == expected
        del again


def test_missing_file_of_a_store_is_noticed(tmp_path: Path) -> None:
    data = spec(tmp_path)
    folder = prepare(data, BPE, 100).folder
    for name in sorted(path.name for path in folder.iterdir()):
        (folder / name).unlink()
        said: list[str] = []
        assert not prepare(data, BPE, 100, said.append).reused
        assert "It is prepared again." in said[0]


def test_moved_and_copied_data_reuse_the_store_under_their_new_names(tmp_path: Path) -> None:
    before = prepare(spec(tmp_path / "old", [*PAIRS[:39], "no column", *PAIRS[40:]]), BPE, 100)
    shutil.copytree(tmp_path / "old", tmp_path / "new", ignore=shutil.ignore_patterns("prepared"))
    shutil.rmtree(tmp_path / "new" / "prepared", ignore_errors=True)
    after = prepare(spec(tmp_path / "new", prepared=str(tmp_path / "old" / "prepared")), BPE, 100)
    assert after.reused
    assert after.content == before.content
    assert ids(after) == ids(before)
    new = str(tmp_path / "new" / "train.tsv")
    assert after.train.location(3).file == new
    tallies = {split: (source, tally) for split, source, tally in after.ledger.tallies()}
    assert tallies["train"][0] == new
    assert tallies["train"][1].dropped["wrong columns"].first[0].file == new
    assert before.train.location(3).file == str(tmp_path / "old" / "train.tsv")


def test_rebuilt_store_has_the_same_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = spec(tmp_path)
    first = prepare(data, BPE, 100)
    monkeypatch.setattr("tokenizers.__version__", "9.9.9")
    second = prepare(data, BPE, 100)
    assert not second.reused
    assert second.folder != first.folder
    assert second.content == first.content
    assert second.is_same_data(first.folder.name, None)  # of a run that has no digest
    assert not second.is_same_data("0123456789abcdef", None)
    other = prepare(spec(tmp_path / "other", [*PAIRS[1:40], PAIRS[0], *PAIRS[40:]]), BPE, 100)
    assert other.content != first.content  # the same pairs in another order
    assert not other.is_same_data(first.folder.name, first.content)


def test_content_depends_on_tokenizer_labels_and_texts(tmp_path: Path) -> None:
    base = prepare(spec(tmp_path), BPE, 100).content
    larger = validate(TokenizerSpec, {"kind": "bpe", "vocabulary": 310}, "recipe")
    assert prepare(spec(tmp_path), larger, 100).content != base

    def labeled(name: str, labels: str) -> str:
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"text {n}\t{labels[n % 2]}\n" for n in range(40)))
        source = {"kind": "labeled", "path": str(path)}
        data = {"train": source, "prepared": str(tmp_path / "prepared")}
        return prepare(validate(DataSpec, data, "recipe"), BPE, 100).content

    assert len({labeled("a", "xy"), labeled("b", "yx"), labeled("c", "xz")}) == 3


def test_partial_folders_that_vanish_or_cannot_be_read_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes clean up at once: what one removes, another may be looking at."""
    prepared = tmp_path / "prepared"
    for number in range(40):
        partial = prepared / f".{number:016x}.partial"
        partial.mkdir(parents=True)
        for name in ("train.arrow", "dev.arrow"):
            (partial / name).touch()
            os.utime(partial / name, (1e9, 1e9))
        os.utime(partial, (1e9, 1e9))
    (prepared / ".file.json.partial").write_text("of a killed process")
    os.utime(prepared / ".file.json.partial", (1e9, 1e9))
    failures: list[BaseException] = []

    def clean() -> None:
        try:
            preparing._remove_stale(prepared)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=clean) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(prepared.iterdir()) == []
    locked = prepared / ".locked.partial"
    locked.mkdir()
    stat = Path.stat

    def refuse(path: Path, **options: Any) -> os.stat_result:
        if path == locked:
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    preparing._remove_stale(prepared)


def test_partial_folder_of_a_living_process_is_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, seen = spec(tmp_path), []
    build = preparing.build_splits

    def slow(partial: Path, *rest: Any) -> dict[str, Any]:
        (partial / "train.arrow").touch()
        for path in (partial / "train.arrow", partial):
            os.utime(path, (1e9, 1e9))  # as if nothing had been written for years
        preparing._remove_stale(partial.parent)
        seen.append(partial.exists())
        return build(partial, *rest)

    monkeypatch.setattr(preparing, "build_splits", slow)
    prepare(data, BPE, 100)
    assert seen == [True]


def test_store_replaced_by_another_process_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finds the same damage, and its new store is complete before we remove."""
    data = spec(tmp_path)
    folder = prepare(data, BPE, 100).folder
    (folder / "ledger.json").write_text("{}")
    retire, rebuilt = preparing._retire, []

    def late(*arguments: Any) -> None:
        if not rebuilt:
            rebuilt.append(True)
            prepare(data, BPE, 100)
        retire(*arguments)

    monkeypatch.setattr(preparing, "_retire", late)
    builds: list[Any] = []
    build = preparing.build_splits

    def counted(*arguments: Any) -> dict[str, Any]:
        builds.append(arguments)
        return build(*arguments)

    monkeypatch.setattr(preparing, "build_splits", counted)
    assert prepare(data, BPE, 100).reused
    assert len(builds) == 1
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_store_that_cannot_be_read_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little memory says nothing about the content; hours of preparation are not repeated."""
    data = spec(tmp_path)
    folder = prepare(data, BPE, 100).folder

    def no_memory(*_: Any) -> str:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(preparing, "_read", no_memory)
    with pytest.raises(RunError, match="cannot be read"):
        prepare(data, BPE, 100)
    monkeypatch.undo()
    assert folder.is_dir()
    assert prepare(data, BPE, 100).reused
