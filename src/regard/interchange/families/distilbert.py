"""DistilBERT (Sanh et al. 2019): a smaller BERT without segments, with the masked-language-model
head if the folder has one."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from regard.interchange.config import HuggingFaceConfig, Layers, Rate, Size
from regard.interchange.families.base import Family, Take, activation, renamed


class Config(HuggingFaceConfig):
    """config.json of DistilBERT."""

    aliases: ClassVar[Mapping[str, str]] = {
        "hidden_size": "dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
    }
    harmless: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "heads of other tasks": ("qa_dropout", "seq_classif_dropout"),
        "initial values: the file has the table of positions": ("sinusoidal_pos_embds",),
        "another name of tie_word_embeddings, which transformers does not read": ("tie_weights_",),
    }

    model_type: Literal["distilbert"]
    dim: Size = 768
    n_heads: Size = 12
    n_layers: Layers = 6
    hidden_dim: Size = 3072
    activation: str = "gelu"
    dropout: Rate = 0.1
    max_position_embeddings: Size = 512
    tie_word_embeddings: bool = True


def spec(config: Config) -> dict[str, Any]:
    return {
        "kind": "encoder",
        "dim": config.dim,
        "heads": config.n_heads,
        "ffn_dim": config.hidden_dim,
        "layers": config.n_layers,
        "dropout": config.dropout,
        "position": "learned",
        "norm": {"kind": "layer", "eps": 1e-12},
        "norm_first": False,
        "feed_forward": {
            "kind": "dense",
            "activation": activation(config.activation, "activation"),
        },
        "scale_embedding": False,
        "embedding_norm": True,
        "max_length": config.max_position_embeddings,
    }


def names(config: Config) -> dict[str, Take]:
    takes = {
        "embedding.tokens.weight": Take("embeddings.word_embeddings.weight"),
        "embedding.position.table": Take("embeddings.position_embeddings.weight"),
        **renamed({}, {"embedding.norm": "embeddings.LayerNorm"}),
    }
    linear = {
        "attention.w_q": "attention.q_lin",
        "attention.w_k": "attention.k_lin",
        "attention.w_v": "attention.v_lin",
        "attention.w_o": "attention.out_lin",
        "feed_forward.up_proj": "ffn.lin1",
        "feed_forward.down_proj": "ffn.lin2",
    }
    norms = {
        "attention_residual.norm": "sa_layer_norm",
        "feed_forward_residual.norm": "output_layer_norm",
    }
    for layer in range(config.n_layers):
        own, their = f"blocks.{layer}", f"transformer.layer.{layer}"
        takes |= renamed(
            {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in linear.items()},
            {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in norms.items()},
        )
    return takes


def masked_spec(config: Config) -> dict[str, Any]:
    return spec(config) | {
        "kind": "masked-lm",
        "transform": activation(config.activation, "activation"),
        "tie_embeddings": config.tie_word_embeddings,
    }


def masked_names(config: Config) -> dict[str, Take]:
    takes = {f"encoder.{name}": take for name, take in names(config).items()}
    takes |= renamed({"transform.dense": "vocab_transform"}, {"transform.norm": "vocab_layer_norm"})
    takes["output.bias"] = Take("vocab_projector.bias")
    if not config.tie_word_embeddings:
        takes["output.weight"] = Take("vocab_projector.weight")
    return takes


def tied(config: Config) -> dict[str, str]:
    matrix = {"vocab_projector.weight": "embeddings.word_embeddings.weight"}
    return matrix if config.tie_word_embeddings else {}


POSITIONS = {r".*position_ids": "the numbers 0, 1, 2 …"}

MASKED = Family(
    types=("distilbert",),
    task="masked-lm",
    config=Config,
    spec=masked_spec,
    names=masked_names,
    tied=tied,
    left_out=POSITIONS,
    prefixes=("", "distilbert."),
)

FAMILY = Family(
    types=("distilbert",),
    task="encoder",
    config=Config,
    spec=spec,
    names=names,
    left_out={
        **POSITIONS,
        r"(pre_classifier|classifier|qa_outputs|vocab_.*)\..*": "the head of another task",
    },
    prefixes=("", "distilbert."),
    richer=(("vocab_transform.weight", MASKED),),
)
