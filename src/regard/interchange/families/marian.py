"""Marian (Junczys-Dowmunt et al. 2018), post-norm as in the paper, and Pegasus, pre-norm."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.interchange.config import HuggingFaceConfig, Layers, Rate, Size
from regard.interchange.families.base import Computed, Family, Take, activation, renamed
from regard.positions.sinusoidal import sinusoids


class Config(HuggingFaceConfig):
    """config.json of Marian and Pegasus."""

    aliases: ClassVar[Mapping[str, str]] = {
        "num_attention_heads": "encoder_attention_heads",
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
    }
    harmless: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "positions, which are computed": ("static_position_embeddings", "extra_pos_embeddings"),
    }

    model_type: Literal["marian", "pegasus"]
    d_model: Size
    encoder_layers: Layers
    decoder_layers: Layers
    encoder_attention_heads: Size
    decoder_attention_heads: Size
    encoder_ffn_dim: Size
    decoder_ffn_dim: Size
    activation_function: str = "gelu"
    scale_embedding: bool = False
    dropout: Rate = 0.1
    max_position_embeddings: Annotated[int, Field(gt=0, le=1 << 16)]
    decoder_vocab_size: Size | None = None
    share_encoder_decoder_embeddings: Literal[True] = True
    tie_word_embeddings: Literal[True] = True
    normalize_embedding: Literal[False] = False
    add_bias_logits: Literal[False] = False
    normalize_before: bool | None = None
    add_final_layer_norm: bool | None = None

    @property
    def is_pegasus(self) -> bool:
        return self.model_type == "pegasus"

    @model_validator(mode="after")
    def _check_equal(self) -> Self:
        pairs = (
            ("decoder_attention_heads", self.encoder_attention_heads),
            ("decoder_ffn_dim", self.encoder_ffn_dim),
            ("decoder_vocab_size", self.vocab_size),
            ("normalize_before", self.is_pegasus),
            ("add_final_layer_norm", self.is_pegasus),
        )
        for key, expected in pairs:
            value = getattr(self, key)
            if value is not None and value != expected:
                raise ValueError(
                    f"{key} is {value!r}, and of a {self.model_type} with these settings Regard "
                    f"supports only {expected!r}"
                )
        return self


def spec(config: Config) -> dict[str, Any]:
    return {
        "kind": "encoder-decoder",
        "dim": config.d_model,
        "heads": config.encoder_attention_heads,
        "ffn_dim": config.encoder_ffn_dim,
        "layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "dropout": config.dropout,
        "position": {"kind": "sinusoidal", "layout": "halves"},
        "norm_first": config.is_pegasus,
        "feed_forward": {
            "kind": "dense",
            "activation": activation(config.activation_function, "activation_function"),
        },
        "scale_embedding": config.scale_embedding,
        "output_bias": True,
        "max_length": config.max_position_embeddings,
    }


def names(config: Config) -> dict[str, Take]:
    takes = {
        "encoder.embedding.tokens.weight": Take("model.shared.weight"),
        "decoder.output.bias": Take("final_logits_bias", lambda bias: bias.flatten()),
    }
    attention = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}
    sublayers = {
        "attention": ("self_attn", "attention_residual"),
        "cross": ("encoder_attn", "cross_residual"),
    }
    for stack, layers in (
        ("encoder", config.encoder_layers),
        ("decoder", config.decoder_layers),
    ):
        for layer in range(layers):
            own, their = f"{stack}.blocks.{layer}", f"model.{stack}.layers.{layer}"
            linear = {"feed_forward.up_proj": "fc1", "feed_forward.down_proj": "fc2"}
            norms = {"feed_forward_residual.norm": "final_layer_norm"}
            for ours, (theirs, around) in sublayers.items():
                if ours == "cross" and stack == "encoder":
                    continue
                linear |= {f"{ours}.{a}": f"{theirs}.{b}" for a, b in attention.items()}
                norms[f"{around}.norm"] = f"{theirs}_layer_norm"
            takes |= renamed(
                {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in linear.items()},
                {f"{own}.{ours}": f"{their}.{theirs}" for ours, theirs in norms.items()},
            )
        if config.is_pegasus:
            takes[f"{stack}.norm.gain"] = Take(f"model.{stack}.layer_norm.weight")
            takes[f"{stack}.norm.bias"] = Take(f"model.{stack}.layer_norm.bias")
    return takes


def tied(_config: Config) -> dict[str, str]:
    names = ("lm_head", "model.encoder.embed_tokens", "model.decoder.embed_tokens")
    return {f"{name}.weight": "model.shared.weight" for name in names}


def computed(config: Config) -> dict[str, Computed]:
    """The tables of positions, which older files contain."""

    def table() -> Tensor:
        positions = torch.arange(config.max_position_embeddings)
        return sinusoids(positions, config.d_model, 10_000.0, "halves")

    sizes = Computed((config.max_position_embeddings, config.d_model), table)
    return {f"model.{stack}.embed_positions.weight": sizes for stack in ("encoder", "decoder")}


FAMILY = Family(
    types=("marian", "pegasus"),
    task="translation",
    config=Config,
    spec=spec,
    names=names,
    tied=tied,
    computed=computed,
)
