"""Decoding options of translate, generate and score; export and import."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import regard

from .conftest import EN, FR


def test_n_best_translations_are_sorted_by_score(demo, call) -> None:
    options = ("--beam", "5", "--n-best", "3", "--scores")
    result = call("translate", demo.folder, *options, stdin=f"{EN}\n{FR}\n".encode())
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert result.code == 0
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "2", "2"]
    assert rows[0][2] == FR
    assert rows[3][2] == EN
    scores = [float(row[1]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)


def test_the_beam_of_the_recipe_is_the_default(translator, call, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(translator, run)
    manifest = json.loads((run / "model.json").read_text())
    manifest["details"]["beam"] = 3
    (run / "model.json").write_text(json.dumps(manifest))

    def translated(*options: str) -> str:
        flags = ("--to", "fr", "--scores", "--no-repeat-ngram", "1", "--max-tokens", "6")
        result = call("translate", run, *flags, *options, stdin=EN.encode())
        assert result.code == 0, result.err
        return result.out

    assert translated() == translated("--beam", "3") != translated("--beam", "1")
    assert len(translated("--n-best", "3").splitlines()) == 3


def test_alignment_has_a_link_for_every_output_word(demo, call) -> None:
    result = call("translate", demo.folder, "--align", stdin=b"The cat sleeps.\n")
    text, links = result.out.rstrip("\n").split("\t")
    assert text == "Le chat dort."
    assert re.fullmatch(r"\d+-0 \d+-1 \d+-2", links)


def test_required_and_suppressed_phrases_and_a_prefix(demo, call) -> None:
    def translated(*options: str) -> str:
        return call("translate", demo.folder, *options, stdin=b"The cat sleeps.\n").out

    assert "rue" in translated("--require-phrase", "rue", "--beam", "5")
    assert "chat" not in translated(
        "--suppress-phrase", " chat", "--suppress-phrase", "chat", "--beam", "5"
    )
    assert translated("--prefix", "La rue").startswith("La rue")


LONG = "le vieux chat noir dort dans la grande maison rouge " * 4


def test_required_text_that_does_not_fit_is_refused(demo, call) -> None:
    for options, named in (
        (("--prefix", LONG, "--beam", "3", "--max-tokens", "6"), "(--prefix), or raise"),
        (("--prefix", LONG, "--max-tokens", "6"), "(--prefix), or raise"),
        (("--prefix", LONG * 20), "(--prefix)."),
        (("--require-phrase", LONG, "--max-tokens", "6"), "(--require-phrase), or raise"),
    ):
        result = call("translate", demo.folder, *options, stdin=b"\nThe cat sleeps.\n")
        assert result.code == 1
        assert result.out.strip() == ""
        assert result.err.startswith("regard: line 2: the text that the output must contain has")
        assert named in result.err
        assert result.err.count("\n") == 1
    result = call(
        "translate",
        demo.folder,
        "--prefix",
        "chat",
        "--suppress-phrase",
        "chat",
        stdin=b"The cat sleeps.\n",
    )
    assert result.code == 1
    assert "is both suppressed (--suppress-phrase) and part of a required text" in result.err


def test_unfinished_and_missing_outputs_are_reported(demo, call) -> None:
    """Every line has an output, however little is allowed."""
    lines = b"The cat sleeps.\n\nThe animal sleeps.\n"
    options = ("--max-tokens", "1", "--no-repeat-ngram", "1", "--scores")
    result = call("translate", demo.folder, *options, stdin=lines)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[-1] for row in rows] == ["unfinished", "", "unfinished"]
    assert "Unfinished at the maximum length (--max-tokens): lines 1, 3." in result.err
    plain = call("translate", demo.folder, *options[:-1], stdin=lines)
    assert plain.out.splitlines() == [row[2] for row in rows]
    diverse = ("--beam", "6", "--beam-groups", "3", "--n-best", "6")
    result = call("translate", demo.folder, *diverse, stdin=b"The cat sleeps.\n")
    texts = result.out.splitlines()
    assert len(set(texts)) == len(texts) <= 6
    if len(texts) < 6:
        assert "Fewer than 6 different outputs found" in result.err


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *(
            ("generate", option, value)
            for option in ("temperature", "top-p", "min-p", "repetition-penalty")
            for value in ("nan", "inf", "-1")
        ),
        ("generate", "seed", "-1"),
        ("generate", "top-k", "-1"),
        ("generate", "max-tokens", "99999999999999999999"),
        *((name, "beam", v) for name in ("generate", "translate") for v in ("0", "1000000000")),
        *(("translate", "length-penalty", value) for value in ("nan", "inf", "-1", "1e300")),
        ("translate", "n-best", "1000000000"),
        ("translate", "beam-groups", "3"),
        ("translate", "max-tokens", "0"),
        ("translate", "require-phrase", ""),
        ("translate", "suppress-phrase", ""),
    ],
)
def test_settings_out_of_range_are_refused(
    demo, language_model, call, command: str, option: str, value: str
) -> None:
    run = demo.folder if command == "translate" else language_model
    sampled = ("--temperature", "1") if option in ("top-p", "min-p", "top-k") else ()
    result = call(command, run, f"--{option}={value}", *sampled, stdin=b"The cat sleeps.\n")
    assert result.code in (1, 2)
    assert result.out == ""
    assert "Traceback" not in result.err
    assert {option, option.replace("-", "_"), option.split("-")[-1]} & set(
        re.findall(r"[a-z_-]+", result.err.replace("--", " "))
    )


def test_sampling_options_are_never_ignored(language_model, call) -> None:
    """NaN is neither 0 nor below 1: it must not select greedy decoding."""
    for options in (("--temperature", "nan"), ("--top-p", "nan"), ("--min-p", "-1")):
        assert call("generate", language_model, *options).code in (1, 2)


def test_a_line_too_long_is_translated_in_segments(demo, call) -> None:
    text = f"{EN} " * 40
    result = call("translate", demo.folder, stdin=f"{EN}\n{text}\n".encode())
    assert result.code == 0
    first, second = result.out.splitlines()
    assert first == FR
    assert second.split(". ") == [FR.rstrip(".")] * 39 + [FR]


@pytest.mark.parametrize("option", ["--int8", "--int4"])
def test_integer_weights_translate_the_same(demo, call, option: str) -> None:
    result = call("translate", demo.folder, option, stdin=f"{EN}\n{FR}\n".encode())
    assert result.out == f"{FR}\n{EN}\n"


def test_weights_have_8_bits_or_4(language_model, call) -> None:
    for option in ("--int8", "--int4"):
        assert call("generate", language_model, option, "--max-tokens", 3).code == 0
    result = call("generate", language_model, "--int8", "--int4")
    assert result.code == 1
    assert result.err == "regard: --int8 and --int4 are both given; leave one of them out.\n"


def test_missing_translations_of_a_gettext_file_are_filled_in(demo, call, tmp_path: Path) -> None:
    (tmp_path / "fr.po").write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
        'msgid "The cat sleeps."\nmsgstr ""\n\nmsgid "Yes"\nmsgstr "Oui"\n'
    )
    target = tmp_path / "new.po"
    result = call("translate", demo.folder, tmp_path / "fr.po", "--to", "fr", "-o", target)
    assert result.code == 0
    filled = target.read_text()
    assert '#, fuzzy\nmsgid "The cat sleeps."\nmsgstr "Le chat dort."' in filled
    assert filled.endswith('msgid "Yes"\nmsgstr "Oui"\n')


def test_killed_translation_resumes_after_the_last_complete_line(demo, tmp_path: Path) -> None:
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


def test_memory_does_not_grow_with_the_input(demo, tmp_path: Path) -> None:
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
        return int(subprocess.run(command, capture_output=True, text=True).stdout)  # KiB

    assert peak(300_000) < peak(1_000) + 10_000  # a record kept of each line takes more


def test_generate_continues_a_prompt(language_model: Path, call) -> None:
    first = call("generate", language_model, "--prompt", "The animal", "--max-tokens", "12")
    assert first.code == 0
    assert first.out.startswith("The animal")
    assert (
        call("generate", language_model, "--prompt", "The animal", "--max-tokens", "12").out
        == first.out
    )
    sampled = ("generate", language_model, "--prompt", "The", "--temperature", "1", "--seed")
    assert call(*sampled, "1").out == call(*sampled, "1").out != call(*sampled, "2").out
    options = ("--prompt", "The animal", "--max-tokens", "12")
    assert (
        call("generate", language_model, *options, "--draft-model", language_model).out == first.out
    )
    assert call("generate", language_model, *options, "--prompt-lookup").out == first.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--top-p", "0.9"), "--temperature above 0"),
        (("--prompt-lookup", "--beam", "3"), "leave out"),
    ],
)
def test_options_without_effect_are_refused(
    language_model: Path, call, options: tuple[str, ...], message: str
) -> None:
    result = call("generate", language_model, "--prompt", "The", *options)
    assert result.code == 1
    assert message in result.err


def test_a_prompt_beyond_the_context_is_refused(language_model: Path, call) -> None:
    result = call("generate", language_model, "--prompt", EN * 10)
    assert result.code == 1
    assert "200 in all" in result.err


def test_score_of_translations_and_of_a_text(
    demo, language_model: Path, call, tmp_path: Path
) -> None:
    (tmp_path / "en.txt").write_text(f"{EN}\n{EN}\n")
    (tmp_path / "fr.txt").write_text(f"{FR}\nLe chat dort.\n")
    result = call("score", demo.folder, tmp_path / "en.txt", tmp_path / "fr.txt")
    good, bad = (list(map(float, line.split("\t"))) for line in result.out.splitlines())
    assert good[0] > bad[0]
    assert good[2] < 1.5 < bad[2]
    assert call("score", demo.folder, tmp_path / "en.txt").code == 1
    lines = call("score", language_model, tmp_path / "en.txt", "--per-token").out.splitlines()
    assert len(lines) == 2
    assert len(lines[0].split("\t")) == 4


@pytest.mark.parametrize("library", ["ctranslate2", "huggingface"])
def test_export_writes_a_config(demo, call, tmp_path: Path, library: str) -> None:
    result = call("export", demo.folder, "--to", library, "-o", tmp_path / "out")
    assert result.code == 0
    assert (tmp_path / "out" / "config.json").exists()
    assert call("export", demo.folder, "--to", "tensorflow").code == 1


def test_exported_and_imported_model_generates_the_same(
    language_model: Path, call, tmp_path: Path
) -> None:
    assert (
        call("export", language_model, "--to", "huggingface", "-o", tmp_path / "exported").code == 0
    )
    assert call("import", tmp_path / "exported", "--run", tmp_path / "imported").code == 0
    options = ("--prompt", "The animal", "--max-tokens", "12")
    generated = call("generate", tmp_path / "imported", *options).out
    assert generated == call("generate", language_model, *options).out


def test_watched_decoding_is_one_tensor_over_all_steps(language_model: Path) -> None:
    writer = regard.load_language_model(language_model)
    with regard.watch(writer.model) as seen:
        writer.generate("The animal", 8)
    weights = seen.over_steps("decoder.blocks.0.attention")
    steps = sum(call.size(2) for call in seen.calls("decoder.blocks.0.attention"))
    assert weights.shape == (1, 4, steps, steps)
    assert steps >= len(writer.tokenizer.encode("The animal"))
    torch.testing.assert_close(weights, weights.tril())
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, steps))
