"""Llama (Touvron et al. 2023): rotary positions, RMS norms, gated feed-forward, grouped queries."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.errors import DataError
from regard.interchange.config import Epsilon, HuggingFaceConfig, Layers, Size
from regard.interchange.families.base import Family, Take, activation

Base = Annotated[float, Field(gt=1, le=1e12, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)]


class Rope(BaseModel):
    """`rope_parameters`, or `rope_scaling` in older files."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    rope_type: str | None = None
    type: str | None = None  # older spelling
    rope_theta: Base | None = None
    partial_rotary_factor: Annotated[float, Field(ge=1, le=1)] | None = None
    factor: Factor | None = None
    low_freq_factor: Annotated[float, Field(gt=0, le=1e6)] | None = None
    high_freq_factor: Annotated[float, Field(gt=0, le=1e6)] | None = None
    original_max_position_embeddings: Size | None = None


class Config(HuggingFaceConfig):
    """config.json of Llama."""

    hidden_size: Size
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    intermediate_size: Size
    num_hidden_layers: Layers
    hidden_act: str = "silu"
    rms_norm_eps: Epsilon = 1e-6
    max_position_embeddings: Size
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    rope_theta: Base | None = None
    rope_parameters: Rope | None = None
    rope_scaling: Rope | None = None
    partial_rotary_factor: Literal[1] | Annotated[float, Field(ge=1, le=1)] | None = None


def spec(config: Config) -> dict[str, Any]:
    heads = config.num_attention_heads
    return {
        "kind": "language-model",
        "dim": config.hidden_size,
        "heads": heads,
        "kv_heads": config.num_key_value_heads or heads,
        "head_dim": config.head_dim or config.hidden_size // heads,
        "ffn_dim": config.intermediate_size,
        "layers": config.num_hidden_layers,
        "dropout": 0.0,
        "position": _position(config),
        "norm": {"kind": "rms", "eps": config.rms_norm_eps},
        "feed_forward": {
            "kind": "gated",
            "activation": activation(config.hidden_act, "hidden_act"),
            "bias": config.mlp_bias,
        },
        "bias": config.attention_bias,
        "scale_embedding": False,
        "tie_embeddings": config.tie_word_embeddings,
        "max_length": config.max_position_embeddings,
    }


def _position(config: Config) -> dict[str, Any]:
    rope, older = config.rope_parameters, config.rope_scaling
    if rope is not None and older is not None and rope != older:
        raise DataError(
            "config.json: rope_parameters and rope_scaling differ; delete the one that is wrong."
        )
    rope = rope or older or Rope()
    if rope.rope_theta and config.rope_theta and rope.rope_theta != config.rope_theta:
        raise DataError(
            f"config.json: rope_theta is {config.rope_theta:g}, and {rope.rope_theta:g} in "
            f"rope_parameters; delete the one that is wrong."
        )
    return {
        "kind": "rotary",
        "pairs": "halves",
        "base": rope.rope_theta or config.rope_theta or 10_000.0,
        "scaling": _scaling(rope, config.max_position_embeddings),
    }


def _scaling(rope: Rope, context: int) -> dict[str, Any] | None:
    """The scaling of the rotary kind. Types other than linear and llama3 are refused."""
    if rope.rope_type and rope.type and rope.rope_type != rope.type:
        raise DataError(
            f"config.json: rope_type is {rope.rope_type!r} and type {rope.type!r}; delete the one "
            f"that is wrong."
        )
    kind = rope.rope_type or rope.type or "default"
    needs = {
        "default": (),
        "linear": ("factor",),
        "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    }
    if kind not in needs:
        raise DataError(
            f"config.json: the rotary positions are of rope_type {kind!r}, which Regard does not "
            f"support (supported: {', '.join(map(repr, needs))})."
        )
    _check_keys(rope, kind, needs[kind])
    if kind == "default":
        return None
    if kind == "linear":
        return {"factor": rope.factor}
    return {
        "factor": rope.factor,
        "low": rope.low_freq_factor,
        "high": rope.high_freq_factor,
        "context": rope.original_max_position_embeddings or context,
    }


def _check_keys(rope: Rope, kind: str, needed: tuple[str, ...]) -> None:
    """Refuse a missing key of this type, and any key of another type."""
    present = {key for key, value in rope.model_dump().items() if value is not None}
    if missing := sorted(set(needed) - present):
        raise DataError(f"config.json: {missing[0]} is missing, which rope_type {kind!r} needs.")
    common = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
    common |= {"original_max_position_embeddings"} if kind == "llama3" else set()
    if surplus := sorted(present - common - set(needed)):
        raise DataError(
            f"config.json: the rotary positions have {surplus[0]}, which rope_type {kind!r} does "
            f"not read; delete it, or correct rope_type."
        )


def names(config: Config) -> dict[str, Take]:
    takes = {
        "decoder.embedding.tokens.weight": Take("model.embed_tokens.weight"),
        "decoder.norm.gain": Take("model.norm.weight"),
    }
    if not config.tie_word_embeddings:
        takes["decoder.output.weight"] = Take("lm_head.weight")
    norms = {
        "attention_residual.norm.gain": "input_layernorm",
        "feed_forward_residual.norm.gain": "post_attention_layernorm",
    }
    attention = {f"attention.w_{letter}": f"self_attn.{letter}_proj" for letter in "qkvo"}
    network = {f"feed_forward.{part}_proj": f"mlp.{part}_proj" for part in ("gate", "up", "down")}
    for layer in range(config.num_hidden_layers):
        own, their = f"decoder.blocks.{layer}", f"model.layers.{layer}"
        for ours, theirs in norms.items():
            takes[f"{own}.{ours}"] = Take(f"{their}.{theirs}.weight")
        for parts, bias in ((attention, config.attention_bias), (network, config.mlp_bias)):
            for ours, theirs in parts.items():
                takes[f"{own}.{ours}.weight"] = Take(f"{their}.{theirs}.weight")
                if bias:
                    takes[f"{own}.{ours}.bias"] = Take(f"{their}.{theirs}.bias")
    return takes


def tied(config: Config) -> dict[str, str]:
    return {"lm_head.weight": "model.embed_tokens.weight"} if config.tie_word_embeddings else {}


FAMILY = Family(
    types=("llama",),
    task="language-model",
    config=Config,
    spec=spec,
    names=names,
    tied=tied,
    left_out={r".*rotary_emb\.inv_freq": "rotary frequencies, which Regard computes"},
    begins_with_start=True,
)
