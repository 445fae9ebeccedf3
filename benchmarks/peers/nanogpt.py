"""Train nanoGPT's character model (Karpathy 2022): a plain reimplementation of its training loop.

The settings are those of its README for a CPU: 4 layers, 4 heads, D 128, context 64, 12 rows a
batch, 2,000 updates, no dropout, AdamW at 1e-3 with 100 steps of warmup and cosine decay to 1e-4,
gradients clipped at 1. GPT-2's blocks, without biases. AdamW is torch's fused one, which nanoGPT
uses on a GPU only: on a CPU it is faster too.

    python benchmarks/peers/nanogpt.py DATA --threads 2 --out result.json

DATA contains train.bin and val.bin, 16-bit character ids, and meta.json.
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
ESTIMATE_BATCHES = 20  # as in its README

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
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        merged: Tensor = self.merge(heads.transpose(1, 2).contiguous().view(rows, length, DIM))
        return merged


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(DIM, bias=False)
        self.attention = Attention()
        self.ffn_norm = nn.LayerNorm(DIM, bias=False)
        self.up_proj = nn.Linear(DIM, 4 * DIM, bias=False)
        self.down_proj = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        output: Tensor = x + self.down_proj(F.gelu(self.up_proj(self.ffn_norm(x))))
        return output


class GPT(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, DIM)
        self.positions = nn.Embedding(CONTEXT, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM, bias=False)
        self.output = nn.Linear(DIM, vocabulary, bias=False)
        self.output.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                on_residual = name.endswith(("merge.weight", "down_proj.weight"))
                std = 0.02 / math.sqrt(2 * LAYERS) if on_residual else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.output(self.norm(x))
        return logits


def mean_loss(model: nn.Module, ids: Tensor, labels: Tensor) -> Tensor:
    logits = model(ids)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


def crops(data: Ids, context: int = CONTEXT) -> tuple[Tensor, Tensor]:
    """Return random windows and the next character of each of their characters."""
    starts = torch.randint(len(data) - context, (ROWS,)).tolist()
    ids, labels = (
        torch.stack(
            [
                torch.from_numpy(data[i + shift : i + shift + context].astype(np.int64))
                for i in starts
            ]
        )
        for shift in (0, 1)
    )
    return ids, labels


@torch.no_grad()
def estimate(model: nn.Module, data: Ids, context: int = CONTEXT) -> float:
    """Return nanoGPT's own estimate: the mean loss of random batches."""
    model.eval()
    losses = [mean_loss(model, *crops(data, context)).item() for _ in range(ESTIMATE_BATCHES)]
    model.train()
    return sum(losses) / len(losses)


@torch.no_grad()
def exact_loss(model: nn.Module, data: Ids, context: int = CONTEXT, rows: int = 64) -> float:
    """Return the mean loss of every character except the first, in adjacent windows."""
    ids = torch.from_numpy(data.astype(np.int64))
    inputs, labels = ids[:-1].split(rows * context), ids[1:].split(rows * context)
    model.eval()
    total = 0.0
    for chunk, targets in zip(inputs, labels, strict=True):
        full = len(chunk) // context * context
        for part, length in ((slice(full), context), (slice(full, None), len(chunk) - full)):
            if len(chunk[part]):
                logits = model(chunk[part].view(-1, length))
                loss = F.cross_entropy(logits.flatten(0, 1), targets[part], reduction="sum")
                total += loss.item()
    model.train()
    return total / (len(ids) - 1)


def learning_rate(step: int, steps: int) -> float:
    """Return the learning rate of an update, counted from 0."""
    if step < WARMUP:
        return PEAK * step / WARMUP
    cosine = 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))
    return FLOOR + cosine * (PEAK - FLOOR)


def updates(model: nn.Module, data: Ids, steps: int) -> Iterator[float]:
    """Update the weights; yield the loss of each batch."""
    matrices = [weight for weight in model.parameters() if weight.dim() >= 2]
    others = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=PEAK, betas=BETAS, fused=True)
    batch = crops(data)
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = learning_rate(step, steps)
        loss = mean_loss(model, *batch)
        batch = crops(data)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        adam.zero_grad(set_to_none=True)
        yield loss.item()


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Train and evaluate; the time excludes evaluation."""
    data, val = (
        np.memmap(options.data / f"{name}.bin", dtype=np.uint16, mode="r")
        for name in ("train", "val")
    )
    torch.manual_seed(options.seed)
    model = GPT(json.loads((options.data / "meta.json").read_text("utf-8"))["vocabulary"])
    curve: list[dict[str, float]] = []
    seconds, start = 0.0, time.perf_counter()
    for step, _ in enumerate(updates(model, data, options.steps), start=1):
        if step % options.evaluate_every == 0 or step == options.steps:
            seconds += time.perf_counter() - start
            curve.append({"step": step, "seconds": seconds, "loss": exact_loss(model, val)})
            start = time.perf_counter()
    return {
        "curve": curve,
        "seconds": seconds,
        "steps": options.steps,
        "loss": curve[-1]["loss"],
        "estimate": estimate(model, val),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "peak_memory_bytes": peak_memory(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--evaluate-every", type=int, default=100, help="steps between evaluations")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    write(options.out, train(options))


if __name__ == "__main__":
    main()
