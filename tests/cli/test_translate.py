"""regard translate: lines in, lines out, and one clear sentence where that cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import run_folder
from regard.config import plain
from regard.data.tokenizers import bpe
from regard.models.base import ModelSpec
from regard.models.weights import weights_of

EN = "The animal didn't cross the street because it was too tired."
FR = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."


def one_sentence(answer) -> str:
    """One line on standard error, no traceback, nothing on standard output, exit code 1."""
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith("regard: ")
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err
    return answer.err


def test_as_many_lines_out_as_in(demo, call) -> None:
    text = f"{EN}\r\n\n  {FR}  \n"
    answer = call("translate", demo.folder, stdin=text.encode())
    assert (answer.code, answer.out) == (0, f"{FR}\n\n{EN}\n")


def test_a_real_process_reads_and_writes(demo) -> None:
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
    answer = call("translate", demo.folder, tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert (answer.code, answer.out) == (0, "")
    assert (tmp_path / "out.txt").read_text() == f"{FR}\n"


@pytest.mark.parametrize("text", [b"", b"\n", b"   \n \t \n"])
def test_nothing_to_translate(demo, call, text: bytes) -> None:
    said = one_sentence(call("translate", demo.folder, stdin=text))
    assert "standard input: there is no text to translate" in said


def test_characters_never_seen(demo, call) -> None:
    answer = call("translate", demo.folder, stdin=f"{EN}\nЭто 🦊.".encode())
    assert answer.code == 0
    assert answer.out.startswith(f"{FR}\n")
    assert answer.out.count("\n") == 2
    assert "line 2: never seen in training: 'Э' (U+042D)" in answer.err


def test_invalid_utf8(demo, call) -> None:
    said = one_sentence(call("translate", demo.folder, stdin=b"ok\nThe stre\xe9t.\n"))
    assert "standard input, line 2: byte 9 (0xe9) is not valid UTF-8" in said


def test_a_missing_run_and_a_missing_file(demo, call, tmp_path: Path) -> None:
    said = one_sentence(call("translate", tmp_path / "nowhere", stdin=EN.encode()))
    assert "there is no such run folder" in said
    said = one_sentence(call("translate", demo.folder, tmp_path / "nowhere.txt"))
    assert "nowhere.txt: cannot be read" in said


def test_a_corrupt_run(demo, call, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in filter(Path.is_file, demo.folder.iterdir()):
        data = path.read_bytes()
        (broken / path.name).write_bytes(data[:-10] if path.suffix == ".safetensors" else data)
    said = one_sentence(call("translate", broken, stdin=EN.encode()))
    assert "model.safetensors: does not match its checksum" in said


def test_a_run_of_another_kind(call, tmp_path: Path) -> None:
    spec = ModelSpec.model_validate({"kind": "language-model", "size": "tiny"})
    torch.manual_seed(0)
    tokenizer = bpe.Spec(vocabulary=400).train([EN])
    model = spec.build(len(tokenizer))
    details = {"max_length": 512}
    run = run_folder.Run(
        task="language-model",
        model=plain(spec),
        vocabulary=len(tokenizer),
        details=details,
        weights=weights_of(model),
        tokenizer=tokenizer.to_json(),
        extra_files={},
        documents={},
    )
    run_folder.write(run, tmp_path / "lm")
    said = one_sentence(call("translate", tmp_path / "lm", stdin=EN.encode()))
    assert "holds a language model, not a translator" in said


def test_a_language_it_does_not_know(demo, call) -> None:
    said = one_sentence(call("translate", demo.folder, "--to", "de", stdin=EN.encode()))
    assert "cannot produce 'de', only: en, fr" in said


def test_an_output_that_cannot_be_written(demo, call, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "out.txt"
    said = one_sentence(call("translate", demo.folder, "-o", target, stdin=EN.encode()))
    assert "out.txt: cannot be written" in said
    assert not target.parent.exists()


def test_wrong_usage_is_another_exit_code(call) -> None:
    assert call("translate").code == 2
    assert call("translate", "--nonsense").code == 2
    assert call("nonsense").code == 2


def test_a_person_at_a_terminal_is_answered_line_by_line(demo) -> None:
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")
    theirs, ours = pty.openpty()
    arguments = [sys.executable, "-m", "regard", "translate", str(demo.folder)]
    with subprocess.Popen(
        arguments, stdin=ours, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.write(theirs, f"{EN}\n".encode())
        assert process.stdout.readline() == f"{FR}\n"
        os.write(theirs, "Это\n".encode())
        assert "Type a sentence" in process.stderr.readline()
        assert process.stdout.readline().endswith("\n")
        assert "never seen in training: 'Э'" in process.stderr.readline()
        os.write(theirs, f"{FR}\n\x04".encode())
        assert process.stdout.readline() == f"{EN}\n"
        assert process.wait(timeout=20) == 0
    os.close(theirs)
    os.close(ours)
