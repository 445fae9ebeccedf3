"""Standard streams of real processes: encodings, closed and full ones, and signals."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .fork_server import ForkServer

ODD_NAME = os.fsdecode(b"caf\xe9 \xff.txt")  # bytes that are not UTF-8
ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}


def test_names_that_are_not_utf8_are_names(
    forked: ForkServer, translator: Path, tmp_path: Path
) -> None:
    source, output = tmp_path / ODD_NAME, tmp_path / f"new {ODD_NAME}"
    source.write_text("the animal\n")
    done = forked("translate", translator, source, "--to", "fr", "-o", output)
    assert (done.code, done.out) == (0, b"")
    assert output.exists()
    for environment in ({}, ASCII):
        missing = forked(
            "translate", translator, tmp_path / f"no {ODD_NAME}", environment=environment
        )
        assert missing.code == 1
        assert "no caf\\xe9 \\xff.txt: cannot be read (No such file or directory)" in missing.err
        assert missing.err.count("\n") == 1


def test_text_arguments_that_are_not_utf8_are_refused(
    forked: ForkServer, translator: Path, language_model: Path
) -> None:
    odd = os.fsdecode(b"ab\xff")
    for arguments, name in (
        (("translate", translator, "--prefix", odd), "--prefix"),
        (("translate", translator, "--require-phrase", odd), "--require-phrase"),
        (("look", translator, odd), "TEXTS"),
        (("generate", language_model, "--prompt", odd), "--prompt"),
        (("classify", language_model, "--label", odd), "--label"),
        (("train", "recipe.yaml", odd), "OVERRIDES"),
    ):
        done = forked(*arguments)
        expected = (
            f"regard: {name}: character 3 is not valid UTF-8; convert the text to UTF-8 first.\n"
        )
        assert (done.code, done.err) == (1, expected)


def test_output_is_utf8_whatever_the_locale(
    forked: ForkServer, language_model: Path, translator: Path
) -> None:
    for environment in ({}, ASCII):
        done = forked("generate", language_model, "--prompt", "été ☃", environment=environment)
        assert done.code == 0
        assert done.out.startswith("été ☃".encode())
    unseen = forked("translate", translator, "--to", "fr", stdin="☃".encode(), environment=ASCII)
    assert unseen.code == 0
    assert "never seen in training: '☃' (U+2603)" in unseen.err


@pytest.mark.parametrize("command", ["generate", "translate"])
def test_full_disk_is_one_sentence(
    forked: ForkServer, command: str, language_model: Path, translator: Path
) -> None:
    run = language_model if command == "generate" else translator
    done = forked(command, run, stdin=b"the animal\n", stdout="/dev/full")
    sentence = "regard: standard output: cannot be written (No space left on device).\n"
    assert (done.code, done.err) == (1, sentence)
    silent = forked(command, run, stdin=b"the animal\n", stdout="/dev/full", stderr="/dev/full")
    assert silent.code == 1


def test_closed_streams_end_a_command_without_a_traceback(
    forked: ForkServer, translator: Path
) -> None:
    for streams, code in (
        ({"stdout": "pipe"}, 141),
        ({"stdout": "pipe", "stderr": "pipe"}, 141),
        ({"stdout": "closed"}, 1),
        ({"stderr": "closed"}, 0),
        ({"stderr": "pipe"}, 0),
        ({"stdin": None}, 1),
    ):
        done = forked("translate", translator, **{"stdin": b"the animal\n", **streams})
        assert done.code == code, (streams, done)
        assert "Traceback" not in done.err
    done = forked("translate", translator, stdin=b"a\n", stdout="closed")
    assert "standard output: cannot be written (Bad file descriptor)." in done.err
    done = forked("translate", translator, stdin=None)
    assert "standard input: cannot be read (Bad file descriptor)." in done.err
    unread = forked("translate", translator, "missing.txt", stderr="pipe")
    assert unread.code == 1


def test_real_interpreter_exits_quietly() -> None:
    """Through the shell, with the interpreter's own shutdown; these need no torch."""
    for line, code, err in (
        ("regard --help | true; exit ${PIPESTATUS[0]}", None, ""),
        ("regard --version > /dev/full", 1, "regard: standard output: cannot be written"),
        ("regard --version >&-", 1, "regard: standard output: cannot be written"),
        ("regard train --fresh 2>&-", 1, ""),
        ("regard train --fresh 2> /dev/full", 1, ""),
    ):
        script = line.replace("regard", f"{sys.executable} -m regard")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert code is None or done.returncode == code, (line, done)
        assert done.returncode != 120  # the interpreter failed to flush
        assert done.stderr.startswith(err)
        assert done.stderr.count("\n") == bool(err)


def test_ctrl_c_is_quiet(forked: ForkServer, translator: Path) -> None:
    done = forked("translate", translator, interrupt=True)
    assert (done.code, done.out, done.err) == (130, b"", "")


def test_markup_in_names_and_texts_is_text(
    forked: ForkServer, translator: Path, tmp_path: Path
) -> None:
    odd = "[/] [bold]x[/red] :cat:"
    run = tmp_path / "[b]run"
    shutil.copytree(translator, run)
    page = tmp_path / "[i] page :cat:.html"
    done = forked("look", run, odd, "--to", "fr", "-o", page)
    assert done.code == 0, done.err
    assert f"The page is {page}; it opens in any browser.\n" in done.out.decode()
    assert page.exists()
    (tmp_path / "[b].txt").write_text(f"{odd}\n")
    done = forked(
        "translate", run, tmp_path / "[b].txt", "--to", "fr", "-o", tmp_path / "[bold] out"
    )
    assert done.code == 0, done.err
    done = forked("translate", run, tmp_path / "[/].txt")
    assert f"{tmp_path}/[/].txt: cannot be read" in done.err
