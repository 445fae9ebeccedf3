"""Files that commands write: refused before a model is loaded, and nothing lost."""

import fcntl
import json
import os
import threading
from pathlib import Path

import pytest

from regard.cli._shared import files
from regard.errors import DataError, OutputError
from regard.predictors import resume_file
from regard.predictors.translator import Translator


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the animal\nthe street\n")
    return path


@pytest.fixture
def no_model(tmp_path: Path) -> Path:
    """Return a run folder whose model cannot be loaded: what is refused before is told apart."""
    folder = tmp_path / "no-model"
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps({"format": 2, "sha256": {}}))
    return folder


def commands(run: Path, text: Path, output: Path) -> list[tuple[object, ...]]:
    """Return each command that writes a file, with this output."""
    return [
        ("translate", run, text, "-o", output),
        ("summarize", run, text, "-o", output),
        ("embed", run, text, "-o", output.with_suffix(".npy")),
        ("look", run, "a text", "-o", output),
        ("look", run, "--history", "-o", output),
    ]


def test_output_that_cannot_be_written_is_refused_before_loading(call, no_model, text, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.npy").mkdir()
    for output, message in (
        (tmp_path / "folder", "cannot be written (Is a directory); give the name of a file."),
        (tmp_path / "none" / "out", "because there is no folder "),
        (text / "out", "because there is no folder "),
    ):
        for command in commands(no_model, text, output):
            result = call(*command)
            assert (result.code, result.out) == (1, ""), command
            assert message in result.err, command
            assert result.err.count("\n") == 1


def test_special_files_are_not_replaced(call, no_model, text, tmp_path) -> None:
    """Renaming a file to /dev/null would remove the device."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for output in (Path(os.devnull), fifo):
        result = call("translate", no_model, text, "-o", output)
        assert result.code == 1
        assert "because it is no regular file" in result.err
    assert fifo.is_fifo()


def test_output_is_neither_input_nor_model(call, no_model, text, tmp_path) -> None:
    (tmp_path / "link").hardlink_to(text)
    for output, message in (
        (text, "is also the input"),
        (tmp_path / "link", "is also the input"),
        (no_model / "model.json", "is a file of the model"),
        (no_model / "model.safetensors", "is a file of the model"),
        (no_model / "recipe.yaml", "is a file of the model"),
    ):
        result = call("translate", no_model, text, "-o", output)
        assert result.code == 1
        assert f"{output}: {message}; choose another file for the output." in result.err
    for command in (
        ("export", no_model, "--to", "huggingface", "-o", no_model),
        ("heads", no_model, text, "-o", no_model),
    ):
        result = call(*command)
        assert result.code == 1
        assert f"{no_model}: a model is there; choose another folder." in result.err


def test_files_in_place_of_folders_are_refused_before_loading(call, no_model, text) -> None:
    for command in (
        ("export", no_model, "--to", "huggingface", "-o", text / "out"),
        ("heads", no_model, text, "-o", text),
        ("heads", no_model, text, "--prune", "0.5", "-o", text),
        ("lab", "order", "--report", text),
    ):
        result = call(*command)
        assert result.code == 1, command
        assert f"{text}" in result.err
        assert "cannot be written; choose another folder." in result.err, command


def test_unfinished_lines_of_another_command_are_kept(call, translator, text, tmp_path) -> None:
    output, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    part.write_text("le chat\n")
    for metadata in (None, b"", b"[" * 100_000, b"[]", b'{"of": "another"}'):
        if metadata is not None:
            (tmp_path / "out.txt.part.json").write_bytes(metadata)
        result = call("translate", translator, text, "--to", "fr", "-o", output)
        assert result.code == 1
        assert "unfinished lines of another command are there; finish that command" in result.err
    assert part.read_text() == "le chat\n"
    assert not output.exists()


def test_two_commands_do_not_share_an_output(call, translator, text, tmp_path) -> None:
    output, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    with part.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        result = call("translate", translator, text, "--to", "fr", "-o", output)
    assert result.code == 1
    assert "another command is writing it; choose another output." in result.err
    assert call("translate", translator, text, "--to", "fr", "-o", output).code == 0
    assert len(output.read_text().splitlines()) == 2
    assert not list(tmp_path.glob("*.part*"))


def test_pipes_are_read_once(call, translator, language_model, tmp_path) -> None:
    """A file such as <(zcat text.gz) cannot be counted first, nor read again to resume."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    threading.Thread(target=fifo.write_bytes, args=(b"a\nb\n",), daemon=True).start()
    result = call("translate", translator, fifo, "--to", "fr", "-o", tmp_path / "out")
    assert result.code == 0
    assert len((tmp_path / "out").read_bytes().splitlines()) == 2
    result = call("evaluate", language_model, fifo)
    assert (result.code, result.out) == (1, "")
    assert "fifo: is read twice, and can be read only once; give a file." in result.err


def test_input_that_cannot_be_read_is_refused_before_loading(call, no_model, tmp_path) -> None:
    missing = tmp_path / "missing"
    for path, reason in ((missing, "No such file or directory"), (tmp_path, "Is a directory")):
        for command in (
            ("translate", no_model, path),
            ("summarize", no_model, path),
            ("classify", no_model, path),
            ("embed", no_model, path),
            ("evaluate", no_model, path),
            ("score", no_model, path),
            ("heads", no_model, path),
        ):
            result = call(*command)
            assert (result.code, result.out) == (1, ""), command
            assert f"{path}: cannot be read ({reason})" in result.err, command


def test_permissions_are_checked(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may do everything
    (tmp_path / "text").touch()
    with pytest.raises(DataError, match=r"text: cannot be read \(Permission denied\)"):
        files.check_inputs(tmp_path / "text")
    with pytest.raises(OutputError, match=r"out: cannot be written \(Permission denied\)"):
        files.check_output(tmp_path / "out", tmp_path)


def test_catalog_keeps_its_bytes(call, translator, tmp_path) -> None:
    catalog = tmp_path / "fr.po"
    before = b'\xef\xbb\xbf# caf\xe9\r\nmsgid "one"\r\nmsgstr "un"\r\n\r\nmsgid "the"\r\nmsgstr ""'
    catalog.write_bytes(before)
    assert call("translate", translator, catalog, "--to", "fr", "-o", catalog).code == 0
    after = catalog.read_bytes()
    start, _, rest = after.partition(b"#, fuzzy\r\n")
    assert start + rest[: rest.index(b"msgstr")] == before[: before.rindex(b"msgstr")]
    assert after.count(b"\n") == after.count(b"\r\n")
    result = call("translate", translator, catalog, "--scores")
    assert (result.code, result.out) == (1, "")
    assert "have no effect on a catalog (.po): leave them out." in result.err


def test_interrupted_command_resumes(call, translator, text, tmp_path, monkeypatch) -> None:
    arguments = ("translate", translator, text, "--to", "fr", "--max-tokens", "3", "-o")
    assert call(*arguments, tmp_path / "whole.txt").code == 0
    monkeypatch.setattr(resume_file, "CHUNK", 1)
    translate = Translator.candidates
    calls = iter([translate])

    def interrupted(*arguments, **options):
        return next(calls, _press_ctrl_c)(*arguments, **options)

    monkeypatch.setattr(Translator, "candidates", interrupted)
    output = tmp_path / "out.txt"
    assert call(*arguments, output).code == 130
    assert not output.exists()
    with (tmp_path / "out.txt.part").open("ab") as part:
        part.write(b"half a li")  # as a power cut may leave it
    monkeypatch.setattr(Translator, "candidates", translate)
    other = call("translate", translator, text, "--to", "en", "-o", output)
    assert "unfinished lines of another command" in other.err
    again = call(*arguments, output)
    assert again.code == 0
    assert again.err.startswith("Resuming after line 1.\n")
    assert output.read_bytes() == (tmp_path / "whole.txt").read_bytes()


def _press_ctrl_c(*_, **__):
    raise KeyboardInterrupt
