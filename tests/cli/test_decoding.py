"""The ways of decoding as a user calls them: translate, generate, score, import, export."""

import os
import re
import signal
import subprocess
import sys
import time
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


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model with weights of chance."""
    spec = ModelSpec.model_validate({"kind": "language-model", "size": "tiny", "max_length": 200})
    torch.manual_seed(0)
    tokenizer = bpe.Spec(vocabulary=400).train([EN, FR])
    run = run_folder.Run(
        task="language-model",
        model=plain(spec),
        vocabulary=len(tokenizer),
        details={"max_length": 200},
        weights=weights_of(spec.build(len(tokenizer))),
        tokenizer=tokenizer.to_json(),
        extra_files={},
        documents={},
    )
    folder = tmp_path_factory.mktemp("writer") / "run"
    run_folder.write(run, folder)
    return folder


def test_several_translations_with_their_scores(demo, call) -> None:
    asked = ("--beam", "5", "--n-best", "3", "--scores")
    answer = call("translate", demo.folder, *asked, stdin=f"{EN}\n{FR}\n".encode())
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert answer.code == 0
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "2", "2"]
    assert rows[0][2] == FR
    assert rows[3][2] == EN
    scores = [float(row[1]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)


def test_words_are_aligned(demo, call) -> None:
    answer = call("translate", demo.folder, "--align", stdin=b"The cat sleeps.\n")
    text, links = answer.out.rstrip("\n").split("\t")
    assert text == "Le chat dort."
    assert re.fullmatch(r"\d+-0 \d+-1 \d+-2", links)


def test_forced_forbidden_and_begun(demo, call) -> None:
    def said(*options: str) -> str:
        return call("translate", demo.folder, *options, stdin=b"The cat sleeps.\n").out

    assert "rue" in said("--require-phrase", "rue", "--beam", "5")
    assert "chat" not in said(
        "--suppress-phrase", " chat", "--suppress-phrase", "chat", "--beam", "5"
    )
    assert said("--prefix", "La rue").startswith("La rue")


def test_a_line_too_long_is_cut_and_nothing_is_left_out(demo, call) -> None:
    text = f"{EN} " * 40
    answer = call("translate", demo.folder, stdin=f"{EN}\n{text}\n".encode())
    assert answer.code == 0
    first, second = answer.out.splitlines()
    assert first == FR
    assert second.split(". ") == [FR.rstrip(".")] * 39 + [FR]


def test_whole_numbers_say_the_same_here(demo, call) -> None:
    answer = call("translate", demo.folder, "--int8", stdin=f"{EN}\n{FR}\n".encode())
    assert answer.out == f"{FR}\n{EN}\n"


def test_a_catalogue_is_filled(demo, call, tmp_path: Path) -> None:
    (tmp_path / "fr.po").write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
        'msgid "The cat sleeps."\nmsgstr ""\n\nmsgid "Yes"\nmsgstr "Oui"\n'
    )
    target = tmp_path / "new.po"
    answer = call("translate", demo.folder, tmp_path / "fr.po", "--to", "fr", "-o", target)
    assert answer.code == 0
    filled = target.read_text()
    assert '#, fuzzy\nmsgid "The cat sleeps."\nmsgstr "Le chat dort."' in filled
    assert filled.endswith('msgid "Yes"\nmsgstr "Oui"\n')


def test_killed_half_way_it_goes_on_where_it_was(demo, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(f"{EN}\n{FR}\n\n" * 4000)
    command = [sys.executable, "-m", "regard", "translate", str(demo.folder), str(source)]
    command += ["-o", str(target)]
    part = target.with_name("out.txt.part")
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        while not (part.exists() and part.stat().st_size > 100_000):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert not target.exists()
    done = part.read_bytes().count(b"\n")
    with part.open("ab") as file:
        file.write(b"half a li")  # as a power cut may leave it
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0
    assert f"Resuming after line {done:,}." in again.stderr
    assert target.read_text() == f"{FR}\n{EN}\n\n" * 4000
    assert not part.exists()


def test_memory_does_not_grow_with_the_file(demo, tmp_path: Path) -> None:
    def peak(lines: int) -> int:
        source = tmp_path / f"{lines}.txt"
        source.write_text("\n" * lines + f"{EN}\n")
        code = (
            "import resource, sys; sys.argv = ['regard', 'translate', *sys.argv[1:]]\n"
            "from regard.cli import app\n"
            "try: app()\n"
            "except SystemExit: pass\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        command = [sys.executable, "-c", code, str(demo.folder), str(source)]
        command += ["-o", str(tmp_path / "out.txt")]
        return int(subprocess.run(command, capture_output=True, text=True).stdout)

    assert peak(3_000_000) < peak(1_000) * 1.1


def test_a_text_is_continued(writer: Path, call) -> None:
    first = call("generate", writer, "--prompt", "The animal", "--max-tokens", "12")
    assert first.code == 0
    assert first.out.startswith("The animal")
    assert call("generate", writer, "--prompt", "The animal", "--max-tokens", "12").out == first.out
    drawn = ("generate", writer, "--prompt", "The", "--temperature", "1", "--seed")
    assert call(*drawn, "1").out == call(*drawn, "1").out != call(*drawn, "2").out
    asked = ("--prompt", "The animal", "--max-tokens", "12")
    assert call("generate", writer, *asked, "--draft-model", writer).out == first.out
    assert call("generate", writer, *asked, "--prompt-lookup").out == first.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--top-p", "0.9"), "--temperature above 0"),
        (("--prompt-lookup", "--beam", "3"), "leave out"),
    ],
)
def test_options_that_would_do_nothing_are_refused(writer: Path, call, options, said: str) -> None:
    answer = call("generate", writer, "--prompt", "The", *options)
    assert answer.code == 1
    assert said in answer.err


def test_a_prompt_too_long_is_refused(writer: Path, call) -> None:
    answer = call("generate", writer, "--prompt", EN * 10)
    assert answer.code == 1
    assert "200 in all" in answer.err


def test_texts_and_translations_are_scored(demo, writer: Path, call, tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text(f"{EN}\n{EN}\n")
    (tmp_path / "fr.txt").write_text(f"{FR}\nLe chat dort.\n")
    answer = call("score", demo.folder, tmp_path / "en.txt", tmp_path / "fr.txt")
    good, bad = (list(map(float, line.split("\t"))) for line in answer.out.splitlines())
    assert good[0] > bad[0]
    assert good[2] < 1.5 < bad[2]
    assert call("score", demo.folder, tmp_path / "en.txt").code == 1
    words = call("score", writer, tmp_path / "en.txt", "--per-token").out.splitlines()
    assert len(words) == 2
    assert len(words[0].split("\t")) == 4


@pytest.mark.parametrize("library", ["ctranslate2", "huggingface"])
def test_a_model_is_exported(demo, call, tmp_path: Path, library: str) -> None:
    answer = call("export", demo.folder, "--to", library, "-o", tmp_path / "out")
    assert answer.code == 0
    assert (tmp_path / "out" / "config.json").exists()
    assert call("export", demo.folder, "--to", "tensorflow").code == 1


def test_a_model_comes_back(writer: Path, call, tmp_path: Path) -> None:
    assert call("export", writer, "--to", "huggingface", "-o", tmp_path / "theirs").code == 0
    assert call("import", tmp_path / "theirs", "--run", tmp_path / "back").code == 0
    asked = ("--prompt", "The animal", "--max-tokens", "12")
    assert call("generate", tmp_path / "back", *asked).out == call("generate", writer, *asked).out
