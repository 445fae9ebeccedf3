"""Joey NMT (Kreutzer et al. 2019), through its own command line: throughput only.

Its batches are not sorted by length; it counts the longer of the two sides, so half the budget of
tokens is its batch size. Its log tells target tokens a second; source tokens are taken to be as
many as the corpus has for each target token. It saves a model only after validating it, with the
clock running, so how good it is after so many seconds is not measured here.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import outside
from common import DIM, DROPOUT, HEADS, INNER, LAYERS, SMOOTHING, Corpus

STEP = re.compile(r"Step:\s+(\d+), Batch Loss:\s+([\d.]+),.*Tokens per Sec:\s+(\d+)")


class Reader:
    """Lines of the log as steps: tokens are rates times the seconds between two lines."""

    def __init__(self, corpus: Corpus) -> None:
        examples = corpus.examples("train")
        sources = sum(len(each.source) for each in examples)
        self.ratio = sources / sum(len(each.target) - 1 for each in examples)
        self.last = 0.0

    def __call__(self, line: str, now: float) -> outside.Step | None:
        if "EPOCH" in line:
            self.last = now
        found = STEP.search(line)
        if not found:
            return None
        tokens = int(found[3]) * (now - self.last)
        self.last = now
        return outside.Step(
            int(found[1]), float(found[2]), round(tokens * self.ratio), round(tokens), now
        )


def config(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    side = {
        "level": "word",
        "lowercase": False,
        "normalize": False,
        "max_length": 1000,
        "voc_file": str(folder / "vocabulary.txt"),
    }
    stack = {
        "type": "transformer",
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "hidden_size": DIM,
        "ff_size": INNER,
        "dropout": DROPOUT,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": DIM, "scale": True, "dropout": DROPOUT},
    }
    return {
        "name": "multi30k",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": options.seed,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "fr", **side},
            "trg": {"lang": "en", **side},
        },
        "testing": {"beam_size": 1, "batch_size": 64, "eval_metrics": []},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "scheduling": "warmupinversesquareroot",
            "learning_rate": options.peak,
            "learning_rate_warmup": options.rise,
            "clip_grad_norm": 1.0,
            "label_smoothing": SMOOTHING,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": options.batch_tokens // 2,
            "epochs": outside.FOREVER,
            "logging_freq": 1,
            "validation_freq": outside.FOREVER,
            "early_stopping_metric": "loss",
        },
        "model": {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }


def toolkit(corpus: Corpus, folder: Path, options: argparse.Namespace) -> outside.Toolkit:
    python = str(options.environment / "bin" / "python")
    outside.save(folder / "config.yaml", config(folder, options))

    return outside.Toolkit(
        name="Joey NMT",
        parse=Reader(corpus),
        beginning=re.compile(r"EPOCH 1\b"),
        parameters=re.compile(r"Total params: (\d+)"),
        train=[python, "-m", "joeynmt", "train", str(folder / "config.yaml"), "--skip-test"],
    )


def main() -> None:
    options = outside.parser(__doc__, "joey")
    chosen = options.parse_args()
    if chosen.mode == "train":
        options.error("Joey NMT is measured for its throughput only: --mode throughput")
    outside.run(toolkit, chosen)


if __name__ == "__main__":
    main()
