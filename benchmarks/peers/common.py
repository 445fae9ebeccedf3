"""What all peers share: the prepared data, the options, the score and the result file.

No torch here, so that a peer which is started through its own command line costs nothing twice.
"""

import argparse
import json
import os
import resource
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sacrebleu
from tokenizers import Tokenizer

# The model that every peer builds.
DIM, INNER, HEADS, LAYERS = 256, 1024, 4, 3
DROPOUT, SMOOTHING = 0.1, 0.1
BEAM = 5


@dataclass(frozen=True)
class Example:
    """One pair as ids: the source with its end, the target with start and end."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Corpus:
    """The folder that the benchmark prepared: the same pieces for every peer."""

    folder: Path
    vocabulary: int
    pad: int
    start: int
    end: int

    @classmethod
    def open(cls, folder: Path) -> "Corpus":
        return cls(folder, **json.loads((folder / "meta.json").read_text(encoding="utf-8")))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self.folder / "tokenizer.json"))

    def examples(self, split: str) -> list[Example]:
        with (self.folder / f"{split}.jsonl").open(encoding="utf-8") as lines:
            return [Example(**json.loads(line)) for line in lines]

    def references(self, split: str) -> list[str]:
        text = (self.folder / f"{split}.en").read_text(encoding="utf-8")
        return text.removesuffix("\n").split("\n")

    def text(self, ids: list[int]) -> str:
        """What was generated, up to its end."""
        stop = ids.index(self.end) if self.end in ids else len(ids)
        return str(self.tokenizer.decode(ids[:stop], skip_special_tokens=True))


def bleu(hypotheses: list[str], references: list[str]) -> float:
    """Corpus BLEU of detokenised text: sacreBLEU's 13a, cased."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    return sacrebleu.corpus_bleu(hypotheses, [references]).score


def parser(description: str | None) -> argparse.ArgumentParser:
    """The command line of every peer; each may add to it."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = options.add_argument
    add("data", type=Path, help="the prepared folder")
    add("--mode", choices=["throughput", "train"], required=True)
    add("--out", type=Path, required=True, help="where the result goes, as JSON")
    add("--threads", type=int, default=2)
    add("--seed", type=int, default=1, help="of weights, dropout and the order of the data")
    add("--batch-tokens", type=int, default=4096, help="source and target tokens, with padding")
    add("--steps", type=int, default=60, help="throughput: steps to be timed")
    add("--warmup", type=int, default=10, help="throughput: steps before those")
    add("--seconds", type=float, default=1200, help="train: so long, evaluation not counted")
    add("--evaluate-every", type=float, default=60, help="train: seconds between evaluations")
    add("--peak", type=float, default=1e-3, help="the highest learning rate")
    add("--rise", type=int, default=500, help="steps until the learning rate is at its peak")
    return options


def write(path: Path, result: dict[str, Any]) -> None:
    """Whole or not at all, so that a run cut short leaves its last evaluation behind."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def matrix_rate() -> float:
    """Operations a second of large float32 products, right now.

    Asked between steps: a neighbour on the machine slows it and the engine alike.
    """
    import torch

    size, times = 1024, 12
    a, c = torch.rand(size, size), torch.empty(size, size)
    began = time.perf_counter()
    for _ in range(times):
        torch.mm(a, a, out=c)
    return float(times * 2 * size**3 / (time.perf_counter() - began))


def process_age() -> float:
    """Seconds since this process was started, the interpreter and all imports included."""
    # Field 22 of proc(5)'s stat; the second field, in brackets, may itself hold spaces.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def peak_memory(who: int = resource.RUSAGE_SELF) -> int:
    """The largest resident set so far, in bytes."""
    return resource.getrusage(who).ru_maxrss * 1024
