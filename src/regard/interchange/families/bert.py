"""BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019): post-norm encoders, with the masked-
language-model head if the folder has one.

All tokens are of the first segment: its vector is added to every position. RoBERTa's positions
start at 2.
"""

from typing import Any

from torch import Tensor

from regard.interchange.families.base import (
    Config,
    Family,
    Take,
    activation,
    needed,
    renamed,
    require,
)


def spec(config: Config) -> dict[str, Any]:
    require(config, "position_embedding_type", ["absolute"])
    return {
        "kind": "encoder",
        "dim": needed(config, "hidden_size"),
        "heads": needed(config, "num_attention_heads"),
        "ffn_dim": needed(config, "intermediate_size"),
        "layers": needed(config, "num_hidden_layers"),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "position": "learned",
        "norm": {"kind": "layer", "eps": config.get("layer_norm_eps", 1e-12)},
        "norm_first": False,
        "feed_forward": {"kind": "dense", "activation": activation(config, "hidden_act")},
        "scale_embedding": False,
        "embedding_norm": True,
        "max_length": needed(config, "max_position_embeddings") - _first(config),
    }


def _first(config: Config) -> int:
    return 2 if _is_roberta(config) else 0


def _is_roberta(config: Config) -> bool:
    return bool(config.get("model_type") == "roberta")


def names(config: Config) -> dict[str, Take]:
    def with_segment(positions: Tensor, segments: Tensor) -> Tensor:
        return positions[_first(config) :] + segments[0]

    takes = {
        "embedding.tokens.weight": Take("embeddings.word_embeddings.weight"),
        "embedding.position.table": Take(
            "embeddings.position_embeddings.weight",
            plus="embeddings.token_type_embeddings.weight",
            join=with_segment,
        ),
        "embedding.norm.gain": Take("embeddings.LayerNorm.weight"),
        "embedding.norm.bias": Take("embeddings.LayerNorm.bias"),
    }
    linear = {
        "attention.w_q": "attention.self.query",
        "attention.w_k": "attention.self.key",
        "attention.w_v": "attention.self.value",
        "attention.w_o": "attention.output.dense",
        "feed_forward.up_proj": "intermediate.dense",
        "feed_forward.down_proj": "output.dense",
    }
    norms = {
        "attention_residual.norm": "attention.output.LayerNorm",
        "feed_forward_residual.norm": "output.LayerNorm",
    }
    for layer in range(config["num_hidden_layers"]):
        own, their = f"blocks.{layer}", f"encoder.layer.{layer}"
        takes |= renamed(
            {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in linear.items()},
            {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in norms.items()},
        )
    return takes


def masked_spec(config: Config) -> dict[str, Any]:
    return spec(config) | {
        "kind": "masked-lm",
        "transform": "gelu" if _is_roberta(config) else activation(config, "hidden_act"),
        "tie_embeddings": config.get("tie_word_embeddings", True),
    }


def masked_names(config: Config) -> dict[str, Take]:
    head, norm = (
        ("lm_head.dense", "lm_head.layer_norm")
        if _is_roberta(config)
        else ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm")
    )
    last = "lm_head" if _is_roberta(config) else "cls.predictions"
    takes = {f"encoder.{name}": take for name, take in names(config).items()}
    takes |= renamed({"transform.dense": head}, {"transform.norm": norm})
    if config.get("tie_word_embeddings", True):
        return takes | {"output.bias": Take(f"{last}.bias")}
    return takes | {
        "output.weight": Take(f"{last}.decoder.weight"),
        "output.bias": Take(f"{last}.decoder.bias"),  # the other is unused
    }


MASKED = Family(
    types=("bert", "roberta"),
    task="masked-lm",
    spec=masked_spec,
    names=masked_names,
    left_out=(
        r".*position_ids",
        r"pooler\..*",
        r"cls\.seq_relationship\..*",
        r"cls\.predictions\.(decoder\..*|bias)",
        r"lm_head\.(decoder\..*|bias)",
    ),
    prefixes=("", "bert.", "roberta."),
)

FAMILY = Family(
    types=("bert", "roberta"),
    task="encoder",
    spec=spec,
    names=names,
    left_out=(r".*position_ids", r"pooler\..*", r"cls\..*", r"lm_head\..*", r"classifier\..*"),
    prefixes=("", "bert.", "roberta."),
    richer=(
        ("cls.predictions.transform.dense.weight", MASKED),
        ("lm_head.dense.weight", MASKED),
    ),
)
