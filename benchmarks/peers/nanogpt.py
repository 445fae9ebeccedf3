"""nanoGPT's character model and training loop (Karpathy 2022), written anew and plainly.

The settings are those that its README gives for a CPU: 4 layers, 4 heads, D 128, context 64, 12
rows a batch, 2,000 updates, no dropout, AdamW at 1e-3 with 100 steps of warm-up and half a cosine
down to 1e-4, gradients clipped at 1. GPT-2's blocks, without biases. AdamW is torch's fused one,
which nanoGPT takes on a GPU only: on a CPU it is the faster one too.

    python benchmarks/peers/nanogpt.py DATA --threads 2 --out result.json

DATA holds train.bin and val.bin, character ids of 16 bits one after the other, and meta.json.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from common import peak_memory, write
from torch import Tensor, nn

LAYERS, HEADS, DIM, CONTEXT, ROWS = 4, 4, 128, 64, 12
PEAK, FLOOR, WARMUP, BETAS, DECAY, CLIP = 1e-3, 1e-4, 100, (0.9, 0.99), 0.1, 1.0
GUESSED_FROM = 20  # random batches, as its README says

Ids = npt.NDArray[Any]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(DIM, 3 * DIM, bias=False)
        self.merge = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        parts = self.project(x).split(DIM, dim=2)
        q, k, v = (part.view(rows, length, HEADS, DIM // HEADS).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        merged: Tensor = self.merge(found.transpose(1, 2).contiguous().view(rows, length, DIM))
        return merged


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(DIM, bias=False)
        self.attention = Attention()
        self.before_thought = nn.LayerNorm(DIM, bias=False)
        self.widen = nn.Linear(DIM, 4 * DIM, bias=False)
        self.narrow = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x))
        answer: Tensor = x + self.narrow(F.gelu(self.widen(self.before_thought(x))))
        return answer


class GPT(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, DIM)
        self.places = nn.Embedding(CONTEXT, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM, bias=False)
        self.output = nn.Linear(DIM, vocabulary, bias=False)
        self.output.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                onto_the_sum = name.endswith(("merge.weight", "narrow.weight"))
                std = 0.02 / math.sqrt(2 * LAYERS) if onto_the_sum else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.output(self.norm(x))
        return logits


def loss_of(model: nn.Module, ids: Tensor, following: Tensor) -> Tensor:
    logits = model(ids)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), following.view(-1))


def crops(data: Ids, context: int = CONTEXT) -> tuple[Tensor, Tensor]:
    """Random stretches, and what follows each of their characters."""
    starts = torch.randint(len(data) - context, (ROWS,)).tolist()
    ids, following = (
        torch.stack(
            [torch.from_numpy(data[at + by : at + by + context].astype(np.int64)) for at in starts]
        )
        for by in (0, 1)
    )
    return ids, following


@torch.no_grad()
def estimate(model: nn.Module, data: Ids, context: int = CONTEXT) -> float:
    """nanoGPT's own figure: the mean over some random batches."""
    model.eval()
    losses = [loss_of(model, *crops(data, context)).item() for _ in range(GUESSED_FROM)]
    model.train()
    return sum(losses) / len(losses)


@torch.no_grad()
def whole_loss(model: nn.Module, data: Ids, context: int = CONTEXT, rows: int = 64) -> float:
    """Every character but the first once, in windows that begin where the one before ends."""
    ids = torch.from_numpy(data.astype(np.int64))
    before, after = ids[:-1].split(rows * context), ids[1:].split(rows * context)
    model.eval()
    total = 0.0
    for given, wanted in zip(before, after, strict=True):
        full = len(given) // context * context
        for part, length in ((slice(full), context), (slice(full, None), len(given) - full)):
            if len(given[part]):
                logits = model(given[part].view(-1, length))
                found = F.cross_entropy(logits.flatten(0, 1), wanted[part], reduction="sum")
                total += found.item()
    model.train()
    return total / (len(ids) - 1)


def rate(step: int, steps: int) -> float:
    """Of the step-th update, counted from 0."""
    if step < WARMUP:
        return PEAK * step / WARMUP
    half = 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))
    return FLOOR + half * (PEAK - FLOOR)


def updates(model: nn.Module, data: Ids, steps: int) -> Iterator[float]:
    """Move the weights; gives the loss of each batch."""
    matrices = [each for each in model.parameters() if each.dim() >= 2]
    others = [each for each in model.parameters() if each.dim() < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=PEAK, betas=BETAS, fused=True)
    batch = crops(data)
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = rate(step, steps)
        loss = loss_of(model, *batch)
        batch = crops(data)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        adam.zero_grad(set_to_none=True)
        yield loss.item()


def train(options: argparse.Namespace) -> dict[str, Any]:
    """The clock stands still during evaluation."""
    data, val = (
        np.memmap(options.data / f"{name}.bin", dtype=np.uint16, mode="r")
        for name in ("train", "val")
    )
    torch.manual_seed(options.seed)
    model = GPT(json.loads((options.data / "meta.json").read_text("utf-8"))["vocabulary"])
    curve: list[dict[str, float]] = []
    seconds, began = 0.0, time.perf_counter()
    for step, _ in enumerate(updates(model, data, options.steps), start=1):
        if step % options.look == 0 or step == options.steps:
            seconds += time.perf_counter() - began
            curve.append({"step": step, "seconds": seconds, "loss": whole_loss(model, val)})
            began = time.perf_counter()
    return {
        "curve": curve,
        "seconds": seconds,
        "steps": options.steps,
        "loss": curve[-1]["loss"],
        "estimate": estimate(model, val),
        "parameters": sum(each.numel() for each in model.parameters()),
        "peak_memory_bytes": peak_memory(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--look", type=int, default=100, help="steps between evaluations")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    write(options.out, train(options))


if __name__ == "__main__":
    main()
