"""regard translate: a line out for every line in, errors in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import EN, FR, Result


def one_sentence(result: Result) -> str:
    """Check for one line on standard error and nothing on standard output; return the line."""
    assert result.code == 1
    assert result.out == ""
    assert result.err.startswith("regard: ")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    return result.err


def test_every_line_is_translated(demo, call) -> None:
    text = f"{EN}\r\n\n  {FR}  \n"
    result = call("translate", demo.folder, stdin=text.encode())
    assert (result.code, result.out) == (0, f"{FR}\n\n{EN}\n")


def test_a_subprocess_reads_stdin_and_writes_stdout(demo) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regard", "translate", str(demo.folder), "--to", "fr"],
        input=EN,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{FR}\n"
    assert done.stderr == ""


def test_from_a_file_to_a_file(demo, call, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{EN}\n")
    result = call("translate", demo.folder, tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert (result.code, result.out) == (0, "")
    assert (tmp_path / "out.txt").read_text() == f"{FR}\n"


def test_arguments_are_texts_or_one_file(demo, call, tmp_path: Path) -> None:
    result = call("translate", demo.folder, EN, f"{FR}\n{EN}")
    assert (result.code, result.out) == (0, f"{FR}\n{EN}\n{FR}\n")
    (tmp_path / "in.txt").write_text(f"{EN}\n")
    among = one_sentence(call("translate", demo.folder, EN, tmp_path / "in.txt"))
    assert "in.txt: is a file; give it alone, or only texts." in among
    assert "there is no text to translate" in one_sentence(call("translate", demo.folder, ""))
    # Missing files are not translated.
    for name in ("letter.txt", "here/letter", "letter.fr.gz", "/no/my letter"):
        assert f"{name}: cannot be read" in one_sentence(call("translate", demo.folder, name))


@pytest.mark.parametrize("text", [b"", b"\n", b"   \n \t \n"])
def test_input_without_text_is_refused(demo, call, text: bytes) -> None:
    message = one_sentence(call("translate", demo.folder, stdin=text))
    assert "standard input: there is no text to translate" in message


def test_other_languages_are_reported(demo, call) -> None:
    german = "Das ist nicht der Hund, den ich mit dir auf der Straße gesehen habe."
    result = call("translate", demo.folder, "--to", "fr", EN, german, FR)
    assert result.code == 0
    assert result.out.count("\n") == 3
    assert result.err.splitlines() == [
        "line 2: looks like German, not English.",
        "line 3: looks like French, not English.",
    ]


def test_unknown_characters_are_reported(demo, call) -> None:
    result = call("translate", demo.folder, stdin=f"{EN}\nЭто 🦊.".encode())
    assert result.code == 0
    assert result.out.startswith(f"{FR}\n")
    assert result.out.count("\n") == 2
    assert "line 2: never seen in training: 'Э' (U+042D)" in result.err


def test_error_names_the_line_of_invalid_utf8(demo, call) -> None:
    message = one_sentence(call("translate", demo.folder, stdin=b"ok\nThe stre\xe9t.\n"))
    assert "standard input, line 2: byte 9 (0xe9) is not valid UTF-8" in message


def test_errors_name_a_missing_run_and_a_missing_file(demo, call, tmp_path: Path) -> None:
    message = one_sentence(call("translate", tmp_path / "nowhere", stdin=EN.encode()))
    assert "there is no such run folder" in message
    message = one_sentence(call("translate", demo.folder, tmp_path / "nowhere.txt"))
    assert "nowhere.txt: cannot be read" in message


def test_error_names_a_corrupt_file(demo, call, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in filter(Path.is_file, demo.folder.iterdir()):
        data = path.read_bytes()
        (broken / path.name).write_bytes(data[:-10] if path.suffix == ".safetensors" else data)
    message = one_sentence(call("translate", broken, stdin=EN.encode()))
    assert ".safetensors: does not match its checksum" in message


def test_a_language_model_is_refused(call, language_model: Path) -> None:
    message = one_sentence(call("translate", language_model, stdin=EN.encode()))
    assert "holds a language model, not a translator" in message


def test_an_unknown_language_is_refused(demo, call) -> None:
    message = one_sentence(call("translate", demo.folder, "--to", "de", stdin=EN.encode()))
    assert "cannot produce 'de', only: en, fr" in message


def test_error_names_an_output_that_cannot_be_written(demo, call, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "out.txt"
    message = one_sentence(call("translate", demo.folder, "-o", target, stdin=EN.encode()))
    assert "out.txt: cannot be written" in message
    assert not target.parent.exists()


def test_wrong_usage_has_exit_code_2(call) -> None:
    assert call("translate").code == 2
    assert call("translate", "--nonsense").code == 2
    assert call("nonsense").code == 2


def test_a_terminal_gets_each_line_as_it_is_typed(demo) -> None:
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")
    terminal, child = pty.openpty()
    arguments = [sys.executable, "-m", "regard", "translate", str(demo.folder)]
    with subprocess.Popen(
        arguments, stdin=child, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.write(terminal, f"{EN}\n".encode())
        assert process.stdout.readline() == f"{FR}\n"
        os.write(terminal, "Это\n".encode())
        assert "Type a sentence" in process.stderr.readline()
        assert process.stdout.readline().endswith("\n")
        assert "never seen in training: 'Э'" in process.stderr.readline()
        os.write(terminal, f"{FR}\n\x04".encode())
        assert process.stdout.readline() == f"{EN}\n"
        assert process.wait(timeout=20) == 0
    os.close(terminal)
    os.close(child)
