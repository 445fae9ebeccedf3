"""Throughput and training of a peer that is a torch module."""

import argparse
import math
import platform
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from batching import Batch, batches, pad
from common import (
    BEAM,
    SMOOTHING,
    Corpus,
    bleu,
    matrix_rate,
    peak_memory,
    process_age,
    write,
)
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

CLIP = 1.0
ROWS = 128  # batch size of translation


class Peer(nn.Module, ABC):
    """A model as users of its library would write it."""

    @abstractmethod
    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Return the loss, summed over the target tokens without padding."""

    @abstractmethod
    def translate(self, source: Tensor, source_mask: Tensor, beam: int) -> list[list[int]]:
        """Return ids without the start token, one list a row; beam 1 is greedy."""


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, pad_id: int) -> Tensor:
    """Return the label-smoothed cross-entropy (Szegedy et al. 2016), summed without padding."""
    return F.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        ignore_index=pad_id,
        label_smoothing=SMOOTHING,
        reduction="sum",
    )


def run(name: str, build: Callable[[Corpus], Peer], options: argparse.Namespace) -> None:
    """Build the peer and run the mode of the command line."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    corpus = Corpus.open(options.data)
    peer = build(corpus)
    about = {
        "peer": name,
        "parameters": sum(p.numel() for p in peer.parameters() if p.requires_grad),
        "options": {key: str(value) for key, value in vars(options).items()},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    modes = {"throughput": throughput, "train": train}
    modes[options.mode](peer, corpus, options, about)


def stepper(peer: Peer, options: argparse.Namespace) -> Callable[[Batch], float]:
    """Return a function that updates the weights and returns the loss per target token."""
    adam = torch.optim.Adam(
        peer.parameters(), lr=options.peak, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    schedule = LambdaLR(adam, lambda step: inverse_root(step + 1, options.warmup_steps))
    # One compilation for all shapes: there are hundreds of them.
    objective = torch.compile(peer, dynamic=True) if options.compile else peer

    def step(batch: Batch) -> float:
        total: Tensor = objective(batch.source, batch.source_mask, batch.target)
        loss = total / batch.target_tokens
        adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(peer.parameters(), CLIP)
        adam.step()
        schedule.step()
        return loss.item()

    return step


def inverse_root(step: int, warmup: int) -> float:
    """Return linear warmup, then 1/√step (Vaswani et al. 2017), relative to the peak."""
    return min(step / warmup, math.sqrt(warmup / step))


def stream(corpus: Corpus, options: argparse.Namespace) -> Iterator[Batch]:
    return batches(corpus.examples("train"), options.batch_tokens, options.seed, corpus.pad)


def throughput(
    peer: Peer, corpus: Corpus, options: argparse.Namespace, about: dict[str, Any]
) -> None:
    """Measure consecutive steps, including the creation of their batches."""
    step = stepper(peer, options)
    peer.train()
    seconds: list[float] = []
    rates: list[float] = []
    seen: list[Batch] = []
    first_step = 0.0
    start = time.perf_counter()
    for batch in islice(stream(corpus, options), options.warmup + options.steps):
        step(batch)
        now = time.perf_counter()
        first_step = first_step or process_age()
        seconds.append(now - start)
        seen.append(batch)
        rates.append(matrix_rate())
        start = time.perf_counter()
    timed, counted = seconds[options.warmup :], seen[options.warmup :]
    result = about | {
        "target_tokens_per_second": sum(b.target_tokens for b in counted) / sum(timed),
        "source_tokens_per_second": sum(b.source_tokens for b in counted) / sum(timed),
        "median_step_seconds": statistics.median(timed),
        "step_seconds": timed,
        "matrix_rates": rates[options.warmup :],
        "first_step_seconds": first_step,
        "peak_memory_bytes": peak_memory(),
        "padding_share": 1 - sum(b.real_tokens for b in counted) / sum(b.cells for b in counted),
    }
    write(options.out, result)


def train(peer: Peer, corpus: Corpus, options: argparse.Namespace, about: dict[str, Any]) -> None:
    """Train for a time without evaluation; evaluate the best checkpoint on test.

    The time includes everything else: creating batches and, with --compile, compilation.
    """
    step = stepper(peer, options)
    curve: list[dict[str, float]] = []
    best: tuple[float, dict[str, Tensor]] = (-1.0, {})
    losses: list[float] = []
    seconds, due = 0.0, min(options.evaluate_every, options.seconds)
    peer.train()
    start = time.perf_counter()
    for number, batch in enumerate(stream(corpus, options), start=1):
        losses.append(step(batch))
        now = time.perf_counter()
        seconds, start = seconds + now - start, now
        if seconds < due:
            continue
        dev = bleu(translate(peer, corpus, "dev", beam=1), corpus.references("dev"))
        curve.append(
            {
                "seconds": seconds,
                "step": number,
                "loss": statistics.fmean(losses),  # since the previous evaluation
                "dev_bleu": dev,
            }
        )
        write(options.out, about | {"curve": curve})
        print(curve[-1], flush=True)
        if dev > best[0]:
            best = (dev, deepcopy(peer.state_dict()))
        if seconds >= options.seconds:
            break
        losses = []
        due = min(due + options.evaluate_every, options.seconds)
        peer.train()
        start = time.perf_counter()
    peer.load_state_dict(best[1])
    hypotheses = translate(peer, corpus, "test", BEAM)
    result = about | {
        "curve": curve,
        "best_dev_bleu": best[0],
        "test_bleu": bleu(hypotheses, corpus.references("test")),
        "test_hypotheses": hypotheses,
        "peak_memory_bytes": peak_memory(),
    }
    write(options.out, result)


@torch.inference_mode()
def translate(peer: Peer, corpus: Corpus, split: str, beam: int) -> list[str]:
    """Translate a split in batches of similar length; return the texts in its order."""
    peer.eval()
    sources = [example.source for example in corpus.examples(split)]
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    texts = [""] * len(sources)
    for first in range(0, len(order), ROWS):
        chunk = order[first : first + ROWS]
        source, token_mask = pad([sources[index] for index in chunk], corpus.pad)
        for index, ids in zip(chunk, peer.translate(source, token_mask, beam), strict=True):
            texts[index] = corpus.text(ids)
    return texts


def limit(source: Tensor) -> int:
    """Return the maximum length of a translation; all sentences of the corpus are shorter."""
    return 2 * source.size(1) + 10
