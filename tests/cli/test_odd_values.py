"""Every command × odd values for each of its options: sentences, never a traceback."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from regard.data.tokenizers import bpe

from .conftest import EN, FR
from .fork_server import Finished, ForkServer
from .odd_values import odd_values, parameters
from .random_run import write_random_run

CODES = (0, 1, 2)


@pytest.fixture(scope="session")
def commands(
    tmp_path_factory: pytest.TempPathFactory, translator: Path, language_model: Path
) -> Mapping[str, Mapping[str, list[object]]]:
    """Return the arguments with which each command works, by the name of their parameter."""
    home = tmp_path_factory.mktemp("odd")
    text, pairs = home / "text.txt", home / "pairs.tsv"
    text.write_text(f"{EN}\n")
    pairs.write_text(f"{EN}\t{FR}\n" * 4)
    recipe = home / "recipe.yaml"
    recipe.write_text("data: {train: {kind: nothing}}\n")
    small = {"dim": 16, "heads": 2, "ffn_dim": 16, "layers": 1, "max_length": 60}
    tokenizer = bpe.Spec(vocabulary=300).train([EN, FR], ["mask"])
    details = {"max_length": 60, "max_summary_tokens": 20, "truncate_source": None}
    runs = {
        task: write_random_run(home / task, task, {"kind": kind, **small}, tokenizer, details)
        for task, kind in (
            ("summarization", "encoder-decoder"),
            ("masked-lm", "masked-lm"),
            ("encoder", "encoder"),
        )
    }
    out = home / "out"
    return {
        "init": {
            "task": ["translation"],
            "files": [pairs],
            "budget": ["--budget", "1min"],
            "output": ["-o", home / "new.yaml"],
            "overwrite": ["--overwrite"],
            "no_check": ["--no-check"],
        },
        "check": {"recipe": [recipe]},
        "train": {"recipe": [recipe], "run": ["--run", out]},
        "resume": {"run": [translator]},
        "translate": {"run": [translator], "file": [text], "to": ["--to", "fr"]},
        "summarize": {"run": [runs["summarization"]], "files": [text]},
        "generate": {"run": [language_model], "max_tokens": ["--max-tokens", 5]},
        "fill": {"run": [runs["masked-lm"]], "text": ["the [MASK]"]},
        "score": {"run": [language_model], "file": [text]},
        "evaluate": {"run": [language_model], "data": [text]},
        "embed": {"run": [runs["encoder"]], "file": [text]},
        "classify": {
            "run": [language_model],
            "text": ["--text", "a"],
            "template": ["--template", "{text} is"],
            "label": ["--label", "a= b", "--label", "c= d"],
        },
        "look": {"run": [translator], "texts": [EN], "to": ["--to", "fr"], "output": ["-o", out]},
        "heads": {"run": [language_model], "data": [text], "output": ["-o", home / "heads"]},
        "lab": {"name": ["nothing"]},
        "data": {"action": ["where"], "names": ["nothing"]},
        "export": {"run": [translator], "to": ["--to", "huggingface"], "output": ["-o", out]},
        "import": {"folder": [translator], "run": ["--run", out]},
        "merge": {"run": [translator], "output": ["-o", out]},
        "quantize": {"run": [translator], "output": ["-o", out]},
        "doctor": {},
        "keys": {"action": ["list"], "key_file": [home / "keys"]},
        "serve": {"run": [home / "nothing"]},  # one that is served would not end
    }


def cases() -> list[tuple[str, str, str]]:
    return [
        (command, parameter, value)
        for command, parameter, _, kind in parameters()
        if command != "demo"  # it trains for minutes
        for value in odd_values(parameter, kind)
    ]


def run_case(
    forked: ForkServer,
    commands: Mapping[str, Mapping[str, list[object]]],
    case: tuple[str, str, str],
) -> Finished:
    command, parameter, value = case
    usual = dict(commands[command])
    name = parameter.removeprefix("--").replace("-", "_")
    replaced = [parameter, value] if parameter.startswith("--") else [value]
    arguments = [
        word for key, words in usual.items() for word in (replaced if key == name else words)
    ]
    if name not in usual:
        arguments += replaced
    return forked(command, *arguments, seconds=20)


def fault(done: Finished) -> str | None:
    """Return what is wrong with the end of a command."""
    if done.code not in CODES:
        return f"exit code {done.code}"
    if "Traceback" in done.err or "Traceback" in done.out.decode(errors="replace"):
        return "a traceback"
    if done.code == 1 and done.err.count("\n") > 3:
        return "more than a sentence"
    if done.code == 1 and len(done.err) > 2000:
        return "a sentence of more than 2,000 characters"
    return None


def test_every_command_has_its_usual_arguments(commands) -> None:
    assert {*commands, "demo"} == {command for command, *_ in parameters()} | {"doctor"}


def test_odd_values_are_refused_with_a_sentence(forked, commands) -> None:
    """A share of all cases, the same every time; ODD_VALUES=all runs every one."""
    every = 1 if os.environ.get("ODD_VALUES") == "all" else 17
    faults = []
    for case in cases()[::every]:
        done = run_case(forked, commands, case)
        if (wrong := fault(done)) is not None:
            faults.append(f"{case[0]} {case[1]} {case[2][:40]!r}: {wrong}: {done.err[-300:]}")
    assert not faults, "\n".join(faults)


def test_an_empty_path_is_refused(forked, commands) -> None:
    """It would mean the current folder: `-o "$OUT"` with a variable that is not set."""
    for command, parameter, _, kind in parameters():
        if command != "demo" and kind is Path:
            done = run_case(forked, commands, (command, parameter, ""))
            name = parameter if parameter.startswith("--") else parameter.upper()
            assert (done.code, done.err) == (1, f"regard: {name}: the path is empty; give one.\n")
