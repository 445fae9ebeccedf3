"""The recipes and decoding settings of the reference runs, as plain values.

Recipe keys, kinds and decoding options are named only here, and predictor methods only in
`outputs.py`. Paths are relative to the working folder of a recording: `corpus.py` writes its files
there, and the run NAME is runs/NAME.
"""

from dataclasses import dataclass
from typing import Any

Settings = dict[str, Any]


@dataclass(frozen=True)
class Run:
    recipe: Settings | None = None
    imported: str | None = None  # a folder to import, instead of a recipe to train
    threads: int = 1
    resume: tuple[str, ...] = ()  # overrides with which the finished run is continued
    needs: tuple[str, ...] = ()  # runs that must be trained before


PAIRS = {
    "train": {"kind": "tsv", "path": "pairs-train.tsv", "languages": ["fr", "en"]},
    "dev": {"kind": "tsv", "path": "pairs-dev.tsv", "languages": ["fr", "en"]},
}
ONE_WAY = {**PAIRS, "directions": ["en-fr"]}
TEXT = {
    "train": {"kind": "text", "path": "text-train.txt", "documents": "blank"},
    "dev": {"kind": "text", "path": "text-dev.txt", "documents": "blank"},
}
LABELED = {
    "train": {"kind": "labeled", "path": "labeled-train.tsv"},
    "dev": {"kind": "labeled", "path": "labeled-dev.tsv"},
}
SEVERAL = {"separator": ",", "none": "-"}
MULTILABEL = {
    "train": {"kind": "labeled", "path": "multilabel-train.tsv", "labels": SEVERAL},
    "dev": {"kind": "labeled", "path": "multilabel-dev.tsv", "labels": SEVERAL},
}
ENTAILMENT = {
    "train": {"kind": "labeled", "path": "entailment-train.tsv", "columns": [0, 1, 2]},
    "dev": {"kind": "labeled", "path": "entailment-dev.tsv", "columns": [0, 1, 2]},
}
TREES = {
    "train": {"kind": "conllu", "path": "trees-train.conllu"},
    "dev": {"kind": "conllu", "path": "trees-dev.conllu"},
}
SUMMARIES = {
    "train": {"kind": "tsv", "path": "summaries-train.tsv", "languages": ["text", "summary"]},
    "dev": {"kind": "tsv", "path": "summaries-dev.tsv", "languages": ["text", "summary"]},
    "filters": {"max_ratio": 50},
}

# Small vocabularies, so that many words consist of several subwords.
BPE = {"kind": "bpe", "vocabulary": 600}
BPE_SPACES = {"kind": "bpe", "vocabulary": 600, "spaces": "keep"}
UNIGRAM = {"kind": "unigram", "vocabulary": 420}
WORDS = {"kind": "word", "vocabulary": 600}

SMALL = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.1, "max_length": 64}


def _training(**overrides: Any) -> Settings:
    """Return 40 steps in float32, with dropout from the first epoch and two small evaluations."""
    return {
        "steps": 40,
        "batch_tokens": 512,
        "seed": 3,
        "precision": "float32",
        "optimizer": {"kind": "muon", "learning_rate": 0.02},
        "dropout_start_epoch": 0,
        "evaluation": {"every": 20, "limit": 8},
        **overrides,
    }


def _translation(training: Settings | None = None, tokenizer: Any = BPE, **model: Any) -> Settings:
    return {
        "data": ONE_WAY,
        "tokenizer": tokenizer,
        "model": {"kind": "encoder-decoder", **SMALL, **model},
        "training": _training(**(training or {})),
    }


def _language_model(
    training: Settings | None = None, task: Any = "language-model", **model: Any
) -> Settings:
    return {
        "task": task,
        "data": TEXT,
        "tokenizer": BPE_SPACES,
        "model": {"kind": "language-model", **SMALL, **model},
        "training": _training(label_smoothing=0.0, **(training or {})),
    }


def _masked(task: Any = "masked-lm", tokenizer: Any = BPE, **model: Any) -> Settings:
    return {
        "task": task,
        "data": TEXT,
        "tokenizer": tokenizer,
        "model": {"kind": "masked-lm", **SMALL, **model},
        "training": _training(),
    }


def _classifier(
    data: Settings = LABELED,
    task: Any = "classification",
    training: Settings | None = None,
    **model: Any,
) -> Settings:
    return {
        "task": task,
        "data": data,
        "tokenizer": BPE,
        "model": {"kind": "classifier", **SMALL, **model},
        "training": _training(**(training or {})),
    }


def _baseline(task: str, kind: str, **model: Any) -> Settings:
    """Return a recipe of a recurrent, convolutional or attention-only model."""
    data = {"translation": ONE_WAY, "language-model": TEXT, "classification": LABELED}[task]
    return {
        "task": task,
        "data": data,
        "tokenizer": BPE_SPACES if data is TEXT else BPE,
        "model": {"kind": kind, "dim": 32, "max_length": 64, **model},
        "training": _training(),
    }


def _summarization(task: Settings, training: Settings | None = None, **model: Any) -> Settings:
    return {
        "task": {"kind": "summarization", **task},
        "data": SUMMARIES,
        "tokenizer": WORDS,
        "model": {**SMALL, "max_length": 96, **model},
        "training": _training(**(training or {})),
    }


ALTERNATING = {
    "kind": "alternating",
    "pattern": [{"kind": "block-local", "size": 8}, {"kind": "compressed", "stride": 3}],
}
EXPERTS = {
    "kind": "moe",
    "num_experts": 4,
    "top_k": 2,
    "expert": {"kind": "gated", "activation": "silu"},
    "capacity_factor": 1.25,
    "balance_loss": 0.02,
    "jitter": 0.05,
}

ADAMW = {"optimizer": {"kind": "adamw", "learning_rate": 0.01}}

RUNS: dict[str, Run] = {
    # The recipe of `regard demo`: a tenth of its data, 200 of its 2000 steps, always float32.
    "demo": Run(
        {
            "data": {
                "train": {"kind": "grammar", "train_size": 6_000},
                "dev": {"kind": "grammar", "train_size": 6_000, "dev_size": 100, "split": "dev"},
            },
            "tokenizer": {"vocabulary": 2056},
            "model": {"kind": "encoder-decoder", "size": "tiny", "max_length": 128},
            "training": {
                "steps": 200,
                "batch_tokens": 1024,
                "optimizer": {"kind": "muon", "learning_rate": 0.005},
                "precision": "float32",
                "evaluation": {"every": 100, "limit": 20},
            },
        }
    ),
    # Optimizers with each schedule, norms and feed-forward networks, positions.
    "adam-inverse-sqrt": Run(
        _translation(
            {
                "optimizer": {"kind": "adam", "learning_rate": 0.01, "weight_decay": 0.001},
                "schedule": {"kind": "inverse-sqrt", "warmup": 10},
                "label_smoothing": 0.1,
            },
            norm_first=False,
            position={"kind": "sinusoidal", "layout": "halves"},
        )
    ),
    "adamw-linear-alibi": Run(
        _translation(
            {**ADAMW, "schedule": {"kind": "linear", "warmup": 5}},
            position="alibi",
            tie_embeddings="output",
            output_bias=True,
            decoder_layers=1,
        )
    ),
    "adamw-cosine-rotary-gated-rms": Run(
        _translation(
            {
                "optimizer": {
                    "kind": "adamw",
                    "learning_rate": 0.01,
                    "betas": [0.9, 0.95],
                    "weight_decay": 0.1,
                },
                "schedule": {"kind": "cosine", "floor": 0.1, "warmup": 5},
            },
            position="rotary",
            norm="rms",
            feed_forward={"kind": "gated", "activation": "gelu"},
            kv_heads=2,
            bias=False,
            tie_embeddings="embeddings",
        )
    ),
    "adamw-constant-relative": Run(
        _translation(
            {**ADAMW, "schedule": {"kind": "constant", "warmup": 3}},
            position={"kind": "relative", "clip": 4},
            attention="reference",
            tie_embeddings="none",
        )
    ),
    "distance-positions": Run(
        _translation(
            position={"kind": "distance", "clip": 8},
            head_dim=6,
            tokenizer="character",
            max_length=128,
        )
    ),
    # Options of the training loop.
    "weight-averaging": Run(_translation({"ema_decay": 0.9, "label_smoothing": 0.2})),
    "accumulation": Run(
        _translation(
            {"grad_accumulation": 3, "batch_tokens": 256, "max_grad_norm": 0.5, "steps": 20},
            dropout=0.2,
        )
    ),
    "two-directions-bytes": Run({**_translation(tokenizer="byte", max_length=128), "data": PAIRS}),
    "early-stopping-last": Run(
        _translation(
            {
                "optimizer": {"kind": "adamw", "learning_rate": 0.2},
                "evaluation": {
                    "every": 5,
                    "limit": 8,
                    "metric": "chrf",
                    "patience": 2,
                    "select": "last",
                },
            },
            tokenizer=UNIGRAM,
        )
    ),
    "two-threads": Run(_translation({"batch_tokens": 2048, "steps": 20}), threads=2),
    "resumed": Run(_translation({"steps": 20, "ema_decay": 0.9}), resume=("training.steps=30",)),
    "pretrained-vectors": Run(
        {
            **_classifier(position="learned", pooling="mean"),
            "tokenizer": WORDS,
            "pretrained_embeddings": {"path": "vectors.txt", "frozen": True},
        }
    ),
    # Other encoder-decoders.
    "recurrent": Run(_baseline("translation", "recurrent", cell="gru", score="additive", layers=2)),
    "recurrent-lstm-general": Run(
        _baseline("translation", "recurrent", cell="lstm", score="general", layers=1)
    ),
    "recurrent-without-attention": Run(
        _baseline("translation", "recurrent", cell="lstm", score="none", layers=1)
    ),
    "decoder-only": Run(
        {
            **_translation(tie_embeddings=True),
            "model": {"kind": "decoder-only", **SMALL, "max_length": 96, "position": "rotary"},
        }
    ),
    "linear-attention": Run(_translation(attention="linear")),
    # Language models.
    "language-model-draft": Run(_language_model(layers=1, dim=16)),
    "language-model": Run(_language_model(position="learned"), needs=("language-model-draft",)),
    "experts": Run(_language_model(feed_forward=EXPERTS, position="rotary", kv_heads=2)),
    "window-attention": Run(_language_model(attention={"kind": "window", "size": 6})),
    "window-dilated-documents": Run(
        _language_model(
            task={"kind": "language-model", "document_mask": True},
            attention={"kind": "window", "size": 8, "dilation": 2},
            position="alibi",
        )
    ),
    "documents-apart": Run(
        _language_model(
            task={"kind": "language-model", "document_mask": True},
            position={"kind": "rotary", "pairs": "halves"},
        )
    ),
    "blocks-attention": Run(
        _language_model(attention={"kind": "block-local", "size": 8}, position="none")
    ),
    "compressed-attention": Run(
        _language_model(attention={"kind": "compressed", "stride": 3}, position="sinusoidal")
    ),
    "recurrent-language-model": Run(_baseline("language-model", "recurrent", cell="lstm")),
    "word-window-language-model": Run(
        _baseline("language-model", "convolutional", window=3, layers=2, norm="rms")
    ),
    "bare-language-model": Run(_baseline("language-model", "self-attention-only")),
    # Masked language models and span corruption.
    "masked": Run(
        _masked(
            {"kind": "masked-lm", "whole_words": True, "mask_rate": 0.2},
            transform="gelu",
            embedding_norm=True,
            norm_first=False,
            position="learned",
        )
    ),
    "bigbird": Run(
        _masked(
            attention={"kind": "bigbird", "block": 4, "window": 3, "global": 1, "random": 1},
        )
    ),
    "linformer": Run(_masked(attention={"kind": "linformer", "rank": 8, "share": "heads"})),
    "linformer-layers": Run(_masked(attention={"kind": "linformer", "rank": 8, "share": "layers"})),
    "span": Run(
        {
            **_masked({"kind": "span-corruption", "mean_span_length": 2, "sentinels": 20}),
            "model": {"kind": "encoder-decoder", **SMALL},
        }
    ),
    # Classifiers.
    "classifier": Run(_classifier(pooling="attention", layers=1)),
    "classifier-several-labels": Run(_classifier(MULTILABEL, pooling="first")),
    "classifier-of-pairs": Run(
        _classifier(
            ENTAILMENT,
            {"kind": "classification", "balance": True},
            {
                "layer_lr_decay": 0.7,
                "lr_multipliers": {"output": 5.0},
                "freeze": ["encoder.embedding"],
            },
            max_length=128,
        )
    ),
    "syntax": Run(
        _classifier(TREES, position={"kind": "syntax", "linear": "sinusoidal", "join": "concat"})
    ),
    "syntax-rotary": Run(
        _classifier(TREES, position={"kind": "syntax", "linear": "rotary", "absolute": False})
    ),
    "recurrent-classifier": Run(_baseline("classification", "recurrent", pooling="mean")),
    "word-window-classifier": Run(
        _baseline("classification", "convolutional", window=3, layers=2, pooling="attention")
    ),
    "bare-classifier": Run(_baseline("classification", "self-attention-only", layers=2)),
    # Summarizers.
    "summarization": Run(
        _summarization(
            {"source": 40},
            kind="encoder-decoder",
            encoder_attention={
                "kind": "alternating",
                "pattern": [{"kind": "window", "size": 8}, {"kind": "compressed", "stride": 3}],
            },
        )
    ),
    "summarization-decoder-only": Run(
        _summarization(
            {},
            {"evaluation": {"every": 20, "limit": 8, "metric": "rouge_l"}},
            kind="decoder-only",
            max_length=128,
            attention=ALTERNATING,
            feed_forward={**EXPERTS, "expert": "dense"},
        )
    ),
    # Initialized from another run, or imported.
    "fine-tuned": Run(
        {
            **_classifier(training={"freeze": ["encoder.embedding"], "layer_lr_decay": 0.8}),
            "model": {"kind": "classifier"},
            "tokenizer": None,
            "init": "runs/masked",
        },
        needs=("masked",),
    ),
    "lora": Run(
        {
            **_translation({"seed": 7}),
            "model": {},
            "tokenizer": None,
            "init": "runs/weight-averaging",
            "adapter": {"kind": "lora", "rank": 4, "on": ["w_q", "w_v", "up_proj"], "dropout": 0.1},
        },
        needs=("weight-averaging",),
    ),
    "lora-classifier": Run(
        {
            **_classifier(),
            "model": {"kind": "classifier"},
            "tokenizer": None,
            "init": "runs/masked",
            "adapter": {"kind": "lora", "rank": 2},
        },
        needs=("masked",),
    ),
    "bert": Run(imported="bert"),
}

# A smaller model with the same tokenizer, for speculative decoding.
DRAFTS = {"language-model": "language-model-draft"}

# Settings of decoding, by name.
BEAMS: dict[str, Settings] = {
    "beam": {"beam": 4, "n_best": 3},
    "length penalty, early stopping": {"beam": 3, "length_penalty": 0.5, "early_stopping": True},
    "diverse": {"beam": 4, "n_best": 4, "beam_groups": 2, "diversity": 0.7},
    "rules": {"beam": 3, "repetition_penalty": 1.3, "no_repeat_ngram": 2},
    "scored": {"return_scores": True},
}
SAMPLINGS: dict[str, Settings] = {
    "top-k": {"temperature": 0.8, "top_k": 20, "seed": 5},
    "top-p": {"top_p": 0.9, "seed": 6},
    "min-p": {"min_p": 0.05, "temperature": 1.2, "seed": 7},
}
