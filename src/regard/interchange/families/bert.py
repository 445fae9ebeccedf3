"""BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019): post-norm encoders, with the masked-
language-model head if the folder has one.

All tokens are of the first segment: its vector is added to every position. RoBERTa's positions
start at 2.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator
from torch import Tensor

from regard.errors import DataError
from regard.interchange.config import Epsilon, HuggingFaceConfig, Layers, Rate, Size, TokenId
from regard.interchange.families.base import Family, Take, activation, renamed


class Config(HuggingFaceConfig):
    """config.json of BERT and RoBERTa."""

    harmless: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "dropout": ("attention_probs_dropout_prob",),
        "the pooler, which Regard does not use": (
            "directionality", "pooler_fc_size", "pooler_num_attention_heads",
            "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
        ),
    }  # fmt: skip

    model_type: Literal["bert", "roberta"]
    hidden_size: Size
    num_attention_heads: Size
    num_hidden_layers: Layers
    intermediate_size: Size
    hidden_act: str = "gelu"
    hidden_dropout_prob: Rate = 0.1
    layer_norm_eps: Epsilon = 1e-12
    max_position_embeddings: Size
    type_vocab_size: Size = 2
    tie_word_embeddings: bool = True
    position_embedding_type: Literal["absolute"] | None = "absolute"
    pad_token_id: TokenId | None = 1

    @model_validator(mode="after")
    def _check_padding(self) -> Self:
        if self.is_roberta and self.pad_token_id is None:
            raise ValueError("pad_token_id is missing, after which RoBERTa counts its positions")
        if self.first_position >= self.max_position_embeddings:
            raise ValueError(f"pad_token_id {self.pad_token_id} leaves no position for a token")
        return self

    @property
    def is_roberta(self) -> bool:
        return self.model_type == "roberta"

    @property
    def first_position(self) -> int:
        """Row of the first token in the table of positions: in RoBERTa, after the padding's."""
        return (self.pad_token_id or 0) + 1 if self.is_roberta else 0


def spec(config: Config) -> dict[str, Any]:
    return {
        "kind": "encoder",
        "dim": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn_dim": config.intermediate_size,
        "layers": config.num_hidden_layers,
        "dropout": config.hidden_dropout_prob,
        "position": "learned",
        "norm": {"kind": "layer", "eps": config.layer_norm_eps},
        "norm_first": False,
        "feed_forward": {
            "kind": "dense",
            "activation": activation(config.hidden_act, "hidden_act"),
        },
        "scale_embedding": False,
        "embedding_norm": True,
        "max_length": config.max_position_embeddings - config.first_position,
    }


def names(config: Config) -> dict[str, Take]:
    def with_segment(positions: Tensor, segments: Tensor) -> Tensor:
        if segments.shape != (config.type_vocab_size, config.hidden_size):
            raise DataError(
                f"config.json: type_vocab_size is {config.type_vocab_size}, and "
                f"token_type_embeddings.weight has the shape {tuple(segments.shape)}."
            )
        return positions[config.first_position :] + segments[0]

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
    for layer in range(config.num_hidden_layers):
        own, their = f"blocks.{layer}", f"encoder.layer.{layer}"
        takes |= renamed(
            {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in linear.items()},
            {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in norms.items()},
        )
    return takes


def masked_spec(config: Config) -> dict[str, Any]:
    return spec(config) | {
        "kind": "masked-lm",
        "transform": "gelu" if config.is_roberta else activation(config.hidden_act, "hidden_act"),
        "tie_embeddings": config.tie_word_embeddings,
    }


def masked_names(config: Config) -> dict[str, Take]:
    head, norm = (
        ("lm_head.dense", "lm_head.layer_norm")
        if config.is_roberta
        else ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm")
    )
    last = "lm_head" if config.is_roberta else "cls.predictions"
    takes = {f"encoder.{name}": take for name, take in names(config).items()}
    takes |= renamed({"transform.dense": head}, {"transform.norm": norm})
    if config.tie_word_embeddings:
        return takes | {"output.bias": Take(f"{last}.bias")}
    return takes | {
        "output.weight": Take(f"{last}.decoder.weight"),
        "output.bias": Take(f"{last}.decoder.bias"),  # the other is unused
    }


def tied(config: Config) -> dict[str, str]:
    """The output layer: its matrix is the embedding, and its bias has two names."""
    last = "lm_head" if config.is_roberta else "cls.predictions"
    matrix = {f"{last}.decoder.weight": "embeddings.word_embeddings.weight"}
    bias = {f"{last}.decoder.bias": f"{last}.bias"}
    return matrix | bias if config.tie_word_embeddings else {}


POOLER = {
    r".*position_ids": "the numbers 0, 1, 2 …",
    r"pooler\..*": "the pooler, a layer for other tasks",
}

MASKED = Family(
    types=("bert", "roberta"),
    task="masked-lm",
    config=Config,
    spec=masked_spec,
    names=masked_names,
    tied=tied,
    left_out={
        **POOLER,
        r"cls\.seq_relationship\..*": "the head of next-sentence prediction",
        r"(cls\.predictions|lm_head)\.bias": "another name of the output's bias, or unused",
    },
    prefixes=("", "bert.", "roberta."),
)

FAMILY = Family(
    types=("bert", "roberta"),
    task="encoder",
    config=Config,
    spec=spec,
    names=names,
    left_out={**POOLER, r"(cls|lm_head|classifier)\..*": "the head of another task"},
    prefixes=("", "bert.", "roberta."),
    richer=(
        ("cls.predictions.transform.dense.weight", MASKED),
        ("lm_head.dense.weight", MASKED),
    ),
)
