"""The protocol of the peers: prepared data, options, score and result file.

This module does not import torch, so that peers with their own command line do not import it twice.
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
DIM, FFN_DIM, HEADS, LAYERS = 256, 1024, 4, 3
DROPOUT, SMOOTHING = 0.1, 0.1
BEAM = 5


@dataclass(frozen=True)
class Example:
    """One pair as token ids: the source with its end, the target with start and end."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Corpus:
    """The folder that the benchmark prepared: the same token ids for every peer."""

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
        """Return the text of generated ids up to the end token."""
        stop = ids.index(self.end) if self.end in ids else len(ids)
        return str(self.tokenizer.decode(ids[:stop], skip_special_tokens=True))


def bleu(hypotheses: list[str], references: list[str]) -> float:
    """Return the corpus BLEU of detokenized text: sacreBLEU's 13a, cased."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    return sacrebleu.corpus_bleu(hypotheses, [references]).score


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the command line of every peer; each may add options."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = options.add_argument
    add("data", type=Path, help="the prepared folder")
    add("--mode", choices=["throughput", "train"], required=True)
    add("--out", type=Path, required=True, help="result file, JSON")
    add("--threads", type=int, default=2)
    add("--seed", type=int, default=1, help="seed of weights, dropout and data order")
    add(
        "--batch-tokens",
        type=int,
        default=4096,
        help="tokens of a batch, source and target, with padding",
    )
    add("--steps", type=int, default=60, help="throughput: timed steps")
    add("--warmup", type=int, default=10, help="throughput: steps before the timed ones")
    add("--seconds", type=float, default=1200, help="train: training time without evaluation")
    add("--evaluate-every", type=float, default=60, help="train: seconds between evaluations")
    add("--peak", type=float, default=1e-3, help="peak learning rate")
    add("--warmup-steps", type=int, default=500, help="steps until the peak learning rate")
    return options


def write(path: Path, result: dict[str, Any]) -> None:
    """Write atomically, so that an interrupted run leaves its last evaluation."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def matrix_rate() -> float:
    """Measure the operations per second of large float32 matrix products.

    Measured between steps: other programs slow down both it and the engine.
    """
    import torch

    size, times = 1024, 12
    a, c = torch.rand(size, size), torch.empty(size, size)
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, a, out=c)
    return float(times * 2 * size**3 / (time.perf_counter() - start))


def process_age() -> float:
    """Return the seconds since this process was started, including interpreter and imports."""
    # Field 22 of proc(5)'s stat; the second field, in brackets, may contain spaces.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def peak_memory(who: int = resource.RUSAGE_SELF) -> int:
    """Return the peak resident memory in bytes."""
    return resource.getrusage(who).ru_maxrss * 1024
