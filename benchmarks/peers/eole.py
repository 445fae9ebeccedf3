"""Train Eole (OpenNMT's successor) through its own command line.

Its Transformer is pre-norm; biases are on everywhere except in the output layer, as in the other
peers. Features that cost time and that the others do not have are off: attention entropy in the
log, and workers that prepare batches beside the two threads. Eole counts the longer of the two
sides, so its batch size is half the budget of tokens.
"""

import argparse
import math
import re
from pathlib import Path
from typing import Any

import external
from common import DIM, DROPOUT, FFN_DIM, HEADS, LAYERS, SMOOTHING, Corpus

STEP = re.compile(r"Step\s+(\d+)/.*xent: ([\d.]+);.*bsz:\s*(\d+)/\s*(\d+)/")


def parse(line: str, now: float) -> external.Step | None:
    match = STEP.search(line)
    if not match:
        return None
    return external.Step(int(match[1]), float(match[2]), int(match[3]), int(match[4]), now)


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
            "transformer_ff": FFN_DIM,
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
            "train_steps": external.UNLIMITED,
            "valid_steps": external.UNLIMITED,
            "save_checkpoint_steps": options.save_steps if options.mode == "train" else 0,
            "keep_checkpoint": -1,
            "batch_type": "tokens",
            "batch_size": options.batch_tokens // 2,
            "normalization": "tokens",
            # All examples, sorted and divided into batches: an epoch.
            "bucket_size": len(corpus.examples("train")),
            "num_workers": 0,
            "compute_dtype": "fp32",
            "optim": "adam",
            "adam_beta2": 0.98,
            "adam_eps": 1e-9,
            "decay_method": "noam",
            # Noam's rule has its peak at learning_rate / √(D · warmup_steps).
            "learning_rate": options.peak * math.sqrt(DIM * options.warmup_steps),
            "warmup_steps": options.warmup_steps,
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


def toolkit(corpus: Corpus, folder: Path, options: argparse.Namespace) -> external.Toolkit:
    program = str(options.environment / "bin" / "eole")
    external.save(folder / "config.yaml", config(corpus, folder, options))

    def translate(step: int, split: str, beam: int, output: Path) -> list[str]:
        return [
            *(program, "predict"),
            *("-model_path", str(folder / "model" / f"step_{step}")),
            *("-src", str(folder / f"{split}.fr")),
            *("-output", str(output)),
            *("-beam_size", str(beam)),
            *("-batch_type", "sents", "-batch_size", "64"),
        ]

    return external.Toolkit(
        name="eole (compiled)" if options.compile else "eole",
        parse=parse,
        start_pattern=re.compile(r"Start training loop"),
        parameters=re.compile(r"number of parameters: ([\d,]+)"),
        train=[program, "train", "-config", str(folder / "config.yaml")],
        translate=translate,
    )


def main() -> None:
    options = external.parser(__doc__, "eole")
    options.add_argument(
        "--save-steps", type=int, default=50, help="train: steps between checkpoints"
    )
    options.add_argument("--compile", action="store_true", help="use its option torch_compile")
    arguments = options.parse_args()
    if arguments.compile and arguments.mode == "train":
        options.error("compiled, Eole cannot save a model with tied embeddings; omit --compile")
    external.run(toolkit, arguments)


if __name__ == "__main__":
    main()
