"""Eole (OpenNMT's successor), through its own command line.

Its transformer has norms before each sublayer; biases are switched on everywhere but in the output,
as in the other peers. What costs time and is not asked of the others is off: attention entropy in
the log, and workers that would prepare batches beside the two threads. Eole counts the longer of
the two sides, so half the budget of tokens is its batch size.
"""

import argparse
import math
import re
from pathlib import Path
from typing import Any

import outside
from common import DIM, DROPOUT, HEADS, INNER, LAYERS, SMOOTHING, Corpus

STEP = re.compile(r"Step\s+(\d+)/.*xent: ([\d.]+);.*bsz:\s*(\d+)/\s*(\d+)/")


def parse(line: str, now: float) -> outside.Step | None:
    found = STEP.search(line)
    if not found:
        return None
    return outside.Step(int(found[1]), float(found[2]), int(found[3]), int(found[4]), now)


def config(corpus: Corpus, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "seed": options.seed,
        "src_vocab": str(folder / "vocabulary.txt"),
        "share_vocab": True,
        "src_vocab_size": corpus.vocabulary + 4,
        "tgt_vocab_size": corpus.vocabulary + 4,
        "vocab_size_multiple": 1,
        "data": {
            "train": {
                "path_src": str(folder / "train.fr"),
                "path_tgt": str(folder / "train.en"),
                "transforms": [],
            },
        },
        "report_every": 1,
        "model": {
            "architecture": "transformer",
            "layers": LAYERS,
            "heads": HEADS,
            "hidden_size": DIM,
            "word_vec_size": DIM,
            "transformer_ff": INNER,
            "mlp_activation_fn": "relu",
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
            "generator_bias": False,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"position_encoding_type": "SinusoidalInterleaved"},
        },
        "training": {
            "model_path": str(folder / "model"),
            "train_steps": outside.FOREVER,
            "valid_steps": outside.FOREVER,
            "save_checkpoint_steps": options.save_steps if options.mode == "train" else 0,
            "keep_checkpoint": -1,
            "batch_type": "tokens",
            "batch_size": options.batch_tokens // 2,
            "normalization": "tokens",
            # All examples once, then sorted and cut: an epoch.
            "bucket_size": len(corpus.examples("train")),
            "num_workers": 0,
            "compute_dtype": "fp32",
            "optim": "adam",
            "adam_beta2": 0.98,
            "adam_eps": 1e-9,
            "decay_method": "noam",
            # Noam's rule has its peak at learning_rate / √(D · warmup_steps).
            "learning_rate": options.peak * math.sqrt(DIM * options.rise),
            "warmup_steps": options.rise,
            "max_grad_norm": 1.0,
            "dropout": [DROPOUT],
            "attention_dropout": [0.0],
            "dropout_steps": [0],
            "label_smoothing": SMOOTHING,
            "param_init_method": "xavier_uniform",
            "log_attention_entropy": False,
            "torch_compile": options.compile,
        },
    }


def toolkit(corpus: Corpus, folder: Path, options: argparse.Namespace) -> outside.Toolkit:
    program = str(options.environment / "bin" / "eole")
    outside.save(folder / "config.yaml", config(corpus, folder, options))

    def translate(step: int, split: str, beam: int, output: Path) -> list[str]:
        return [
            *(program, "predict"),
            *("-model_path", str(folder / "model" / f"step_{step}")),
            *("-src", str(folder / f"{split}.fr")),
            *("-output", str(output)),
            *("-beam_size", str(beam)),
            *("-batch_type", "sents", "-batch_size", "64"),
        ]

    return outside.Toolkit(
        name="eole (compiled)" if options.compile else "eole",
        parse=parse,
        beginning=re.compile(r"Start training loop"),
        parameters=re.compile(r"number of parameters: ([\d,]+)"),
        train=[program, "train", "-config", str(folder / "config.yaml")],
        translate=translate,
    )


def main() -> None:
    options = outside.parser(__doc__, "eole")
    options.add_argument("--save-steps", type=int, default=50, help="train: between checkpoints")
    options.add_argument("--compile", action="store_true", help="its own torch_compile")
    chosen = options.parse_args()
    if chosen.compile and chosen.mode == "train":
        options.error("compiled, Eole cannot save a model with tied embeddings: no --compile")
    outside.run(toolkit, chosen)


if __name__ == "__main__":
    main()
