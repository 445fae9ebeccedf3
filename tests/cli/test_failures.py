"""Errors that a command does not expect: sentences, exit codes, and tracebacks of bugs."""

import json
from pathlib import Path

import pytest
import torch

from regard.cli._shared.failures import report_failure
from regard.errors import DataError, Interrupted


def caught(statement: str) -> Exception:
    """Return the exception that a statement raises."""
    try:
        exec(statement, {"json": json, "torch": torch, "Path": Path})
    except Exception as error:
        return error
    raise AssertionError(statement)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DataError("here: wrong; fix it."), 1, "here: wrong; fix it."),
        (DataError("a\nkey\x1b[31m: wrong."), 1, r"a\nkey\x1b[31m: wrong."),
        (Interrupted("stopped; resume it."), 130, "stopped; resume it."),
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 1, "out of memory: give less at once"),
        (ImportError("x.so: failed to map segment from shared object"), 1, "out of memory"),
        (caught("try: bytearray(2**60)\nexcept MemoryError: import nowhere"), 1, "out of memory"),
        (RuntimeError("can't start new thread"), 1, "out of memory: give less at once"),
        (caught("torch.empty(2**50)"), 1, "out of memory: give less at once"),
        (caught("bytearray(2**60)"), 1, "out of memory: give less at once"),
        (caught("json.loads('[' * 100_000)"), 1, "nested too deeply"),
        (caught("'a\\ud800'.encode()"), 1, "a text has U+D800, half of a surrogate pair"),
        (caught("Path('/nowhere/x').open()"), 1, "/nowhere/x: No such file or directory."),
    ],
)
def test_known_failures_are_one_sentence(capsys, error, code, message) -> None:
    assert report_failure(error) == code
    err = capsys.readouterr().err
    assert err.count("\n") == bool(message)
    assert message in err


def test_long_values_are_shortened(capsys) -> None:
    report_failure(DataError(f"{'a' * 100_000}: cannot be read; give a file."))
    err = capsys.readouterr().err
    assert len(err) < 1100
    assert err.startswith("regard: aaa")
    assert err.endswith("aaa: cannot be read; give a file.\n")


def test_bug_keeps_its_traceback(capsys) -> None:
    assert report_failure(caught("{}['a']")) == 70
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.endswith(
        "regard: KeyError: this is a bug in Regard; please report it with the lines above.\n"
    )


def test_memory_limit_is_one_sentence(forked, translator, tmp_path) -> None:
    """A real process that may take 60 MB more, and a line of 40 MB."""
    path = tmp_path / "line.txt"
    path.write_bytes(b"a" * 40_000_000)
    done = forked("translate", translator, path, "--to", "fr", memory=60_000_000)
    assert done.code == 1
    assert done.err.startswith("regard: out of memory")
