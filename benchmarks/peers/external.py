"""Run peers through their own command line; measure them by their logs and checkpoints.

They get the same token ids as text: the id 17 is the word `p17`, and a line of such words is a
sentence. Their translations are in the same form.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
from common import BEAM, Corpus, bleu, peak_memory, write

UNLIMITED = 10**6  # steps


def to_words(ids: list[int]) -> str:
    return " ".join(f"p{index}" for index in ids)


def to_ids(line: str) -> list[int]:
    """Return the ids of a line without other words (a toolkit's unknown token)."""
    return [int(index) for index in re.findall(r"\bp(\d+)\b", line)]


def write_corpus(corpus: Corpus, folder: Path) -> None:
    """Write sources with end token and targets without: toolkits add their own start and end."""
    for split in ("train", "dev", "test"):
        examples = corpus.examples(split)
        for side, rows in (
            ("fr", [example.source for example in examples]),
            ("en", [example.target[1:-1] for example in examples]),
        ):
            text = "".join(to_words(row) + "\n" for row in rows)
            (folder / f"{split}.{side}").write_text(text, encoding="utf-8")
    words = (f"p{index}\n" for index in range(corpus.vocabulary))
    excluded = {f"p{corpus.pad}\n", f"p{corpus.start}\n"}  # toolkits have their own
    (folder / "vocabulary.txt").write_text(
        "".join(word for word in words if word not in excluded), encoding="utf-8"
    )


@dataclass(frozen=True)
class Step:
    """One line of a training log; seconds are since the start of the process."""

    number: int
    loss: float
    source_tokens: int
    target_tokens: int
    seconds: float


@dataclass(frozen=True)
class Log:
    """The log of a training run."""

    steps: list[Step]
    start: float  # of the training loop, in seconds
    parameters: int


@dataclass(frozen=True)
class Toolkit:
    """The commands and log patterns of a toolkit."""

    name: str
    parse: Callable[[str, float], Step | None]
    start_pattern: re.Pattern[str]
    parameters: re.Pattern[str]
    train: list[str]  # the command; it is stopped
    # step, split, beam, output → command; None if only throughput is measured
    translate: Callable[[int, str, int, Path], list[str]] | None = None


def parser(description: str | None, name: str) -> argparse.ArgumentParser:
    options = common.parser(description)
    folder = Path(__file__).parent / "environments" / name
    options.add_argument("--environment", type=Path, default=folder)
    return options


def environment(threads: int) -> dict[str, str]:
    return os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
    }


def log_lines(command: list[str], folder: Path, threads: int) -> Iterator[tuple[float, str]]:
    """Yield the lines of a process with their times; closing the iterator ends the process."""
    start = time.perf_counter()
    with (
        (folder / "log.txt").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment(threads),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.write(line)
                yield time.perf_counter() - start, line
        except GeneratorExit:
            process.terminate()
            raise
    if process.returncode:
        last = (folder / "log.txt").read_text(encoding="utf-8").splitlines()[-20:]
        raise RuntimeError("\n".join([f"{command[0]} failed; its last lines:", *last]))


def follow(
    toolkit: Toolkit, folder: Path, options: argparse.Namespace, steps: int, seconds: float
) -> Log:
    """Train until a number of steps or seconds, whichever comes first, and stop the process."""
    steps_done: list[Step] = []
    start, parameters = 0.0, 0
    lines = log_lines(toolkit.train, folder, options.threads)
    for now, line in lines:
        if toolkit.start_pattern.search(line):
            start = now
        if match := toolkit.parameters.search(line):
            parameters = int(match[1].replace(",", ""))
        if step := toolkit.parse(line, now):
            steps_done.append(step)
            if step.number >= steps or now - start > seconds:
                break
    lines.close()  # type: ignore[attr-defined]
    return Log(steps_done, start, parameters)


def run(
    make: Callable[[Corpus, Path, argparse.Namespace], Toolkit], options: argparse.Namespace
) -> None:
    corpus = Corpus.open(options.data)
    modes = {"throughput": throughput, "train": train}
    with tempfile.TemporaryDirectory(prefix="peer-") as scratch:
        folder = Path(scratch)
        write_corpus(corpus, folder)
        toolkit = make(corpus, folder, options)
        about = {
            "peer": toolkit.name,
            "options": {key: str(value) for key, value in vars(options).items()},
        }
        modes[options.mode](toolkit, corpus, folder, options, about)


def throughput(
    toolkit: Toolkit,
    corpus: Corpus,  # noqa: ARG001  both modes have the same arguments
    folder: Path,
    options: argparse.Namespace,
    about: dict[str, Any],
) -> None:
    """Measure steps by the times of their lines in the log."""
    log = follow(toolkit, folder, options, options.warmup + options.steps, float("inf"))
    starts = [log.start, *(step.seconds for step in log.steps)]
    gaps = [step.seconds - start for step, start in zip(log.steps, starts, strict=False)]
    timed, counted = gaps[options.warmup :], log.steps[options.warmup :]
    result = about | {
        "parameters": log.parameters,
        "target_tokens_per_second": sum(step.target_tokens for step in counted) / sum(timed),
        "source_tokens_per_second": sum(step.source_tokens for step in counted) / sum(timed),
        "median_step_seconds": statistics.median(timed),
        "step_seconds": timed,
        "first_step_seconds": log.steps[0].seconds,
        "peak_memory_bytes": peak_memory(resource.RUSAGE_CHILDREN),
        "padding_share": None,  # not in the log
    }
    write(options.out, result)


def train(
    toolkit: Toolkit,
    corpus: Corpus,
    folder: Path,
    options: argparse.Namespace,
    about: dict[str, Any],
) -> None:
    """Train, then translate with the saved checkpoints, about one in each period.

    The time runs from the start of the training loop and includes the saving of checkpoints.
    """
    log = follow(toolkit, folder, options, UNLIMITED, options.seconds)
    memory = peak_memory(resource.RUSAGE_CHILDREN)
    about |= {"parameters": log.parameters}
    curve: list[dict[str, float]] = []
    for step in checkpoints(log, options):
        since = int(curve[-1]["step"]) if curve else 0
        hypotheses = translate(toolkit, corpus, folder, options, step.number, "dev", beam=1)
        curve.append(
            {
                "seconds": step.seconds - log.start,
                "step": step.number,
                "loss": statistics.fmean(s.loss for s in log.steps[since : step.number]),
                "dev_bleu": bleu(hypotheses, corpus.references("dev")),
            }
        )
        write(options.out, about | {"curve": curve})
        print(curve[-1], flush=True)
    best = max(curve, key=lambda entry: entry["dev_bleu"])
    hypotheses = translate(toolkit, corpus, folder, options, int(best["step"]), "test", BEAM)
    result = about | {
        "curve": curve,
        "best_dev_bleu": best["dev_bleu"],
        "test_bleu": bleu(hypotheses, corpus.references("test")),
        "test_hypotheses": hypotheses,
        "peak_memory_bytes": memory,
    }
    write(options.out, result)


def checkpoints(log: Log, options: argparse.Namespace) -> list[Step]:
    """Return the first saved step of each period, and the last complete one."""
    saved = [step for step in log.steps[:-1] if step.number % options.save_steps == 0]
    if not saved:
        raise RuntimeError("no checkpoint was saved in time; lower --save-steps")
    selected: list[Step] = []
    for step in saved:
        due = (len(selected) + 1) * options.evaluate_every
        if step.seconds - log.start >= due or step is saved[-1]:
            selected.append(step)
    return selected


def translate(
    toolkit: Toolkit,
    corpus: Corpus,
    folder: Path,
    options: argparse.Namespace,
    step: int,
    split: str,
    beam: int,
) -> list[str]:
    assert toolkit.translate is not None
    output = folder / f"{split}.{step}.{beam}.out"
    subprocess.run(
        toolkit.translate(step, split, beam, output),
        cwd=folder,
        env=environment(options.threads),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    lines = output.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [corpus.text(to_ids(line)) for line in lines]


def save(path: Path, config: dict[str, Any]) -> None:
    """Write a config file as JSON, which is valid YAML."""
    path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
