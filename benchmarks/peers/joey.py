"""Train Joey NMT (Kreutzer et al. 2019) through its own command line: throughput only.

Its batches are not sorted by length; it counts the longer of the two sides, so its batch size is
half the budget of tokens. Its log has target tokens per second; source tokens are estimated by the
corpus's ratio of source to target tokens. It saves a model only after a timed validation, so its
quality after a given time is not measured.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import external
from common import DIM, DROPOUT, FFN_DIM, HEADS, LAYERS, SMOOTHING, Corpus

STEP = re.compile(r"Step:\s+(\d+), Batch Loss:\s+([\d.]+),.*Tokens per Sec:\s+(\d+)")


class LogParser:
    """Parse lines of the log to steps: tokens are rates times the seconds between two lines."""

    def __init__(self, corpus: Corpus) -> None:
        examples = corpus.examples("train")
        sources = sum(len(example.source) for example in examples)
        self.ratio = sources / sum(len(example.target) - 1 for example in examples)
        self.last = 0.0

    def __call__(self, line: str, now: float) -> external.Step | None:
        if "EPOCH" in line:
            self.last = now
        match = STEP.search(line)
        if not match:
            return None
        tokens = int(match[3]) * (now - self.last)
        self.last = now
        return external.Step(
            int(match[1]), float(match[2]), round(tokens * self.ratio), round(tokens), now
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
        "ff_size": FFN_DIM,
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
            "learning_rate_warmup": options.warmup_steps,
            "clip_grad_norm": 1.0,
            "label_smoothing": SMOOTHING,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": options.batch_tokens // 2,
            "epochs": external.UNLIMITED,
            "logging_freq": 1,
            "validation_freq": external.UNLIMITED,
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


def toolkit(corpus: Corpus, folder: Path, options: argparse.Namespace) -> external.Toolkit:
    python = str(options.environment / "bin" / "python")
    external.save(folder / "config.yaml", config(folder, options))

    return external.Toolkit(
        name="Joey NMT",
        parse=LogParser(corpus),
        start_pattern=re.compile(r"EPOCH 1\b"),
        parameters=re.compile(r"Total params: (\d+)"),
        train=[python, "-m", "joeynmt", "train", str(folder / "config.yaml"), "--skip-test"],
    )


def main() -> None:
    options = external.parser(__doc__, "joey")
    arguments = options.parse_args()
    if arguments.mode == "train":
        options.error("only the throughput of Joey NMT is measured; use --mode throughput")
    external.run(toolkit, arguments)


if __name__ == "__main__":
    main()
