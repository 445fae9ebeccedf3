"""Settings, named sizes and builders shared by all Transformers.

The architectures are in `encoder`, `encoder_decoder`, `decoder_only`, `language_model`, `masked_lm`
and `classifier`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from regard.attention.base import Attention, AttentionSpec
from regard.attention.multi_head import MultiHead
from regard.config import kind_field
from regard.errors import ConfigError
from regard.layers.decoder import DecoderBlock
from regard.layers.encoder import EncoderBlock
from regard.layers.feedforward.base import FeedForwardSpec
from regard.layers.norms.base import NormSpec
from regard.layers.residual import Residual
from regard.models.base import ModelSpec
from regard.models.embedding import Embedding
from regard.positions.base import InAttention, PositionSpec, Sizes

# `base` and `big`: Vaswani et al. 2017, table 3, with their post-norm.
SIZES: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"dim": 128, "heads": 4, "ffn_dim": 256, "layers": 2, "dropout": 0.0},
    "small": {"dim": 256, "heads": 4, "ffn_dim": 1024, "layers": 3, "dropout": 0.1},
    "base": {
        "dim": 512,
        "heads": 8,
        "ffn_dim": 2048,
        "layers": 6,
        "dropout": 0.1,
        "norm_first": False,
    },
    "big": {
        "dim": 1024,
        "heads": 16,
        "ffn_dim": 4096,
        "layers": 6,
        "dropout": 0.3,
        "norm_first": False,
    },
}

AUTO = "auto"  # a size that is chosen before the model is built


class TransformerSpec(ModelSpec):
    """Settings of every Transformer. `size` sets the keys that the recipe does not."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "inner": "ffn_dim",
        "key_size": "head_dim",
        "key_heads": "kv_heads",
        "tie": "tie_embeddings",
        "kept_heads": "retained_heads",
    }

    size: Literal["tiny", "small", "base", "big", "auto"] | None = Field(
        None,
        description="a named size; keys given in the recipe take precedence; auto: the one that "
        "fits the data and the duration of the training",
    )
    dim: int = Field(256, gt=0, le=1 << 20, description="D, the model size")
    heads: int = Field(4, gt=0, le=1 << 14, description="H, attention heads of a layer")
    head_dim: int | None = Field(
        None, gt=0, le=1 << 16, description="K, size of a head (default: D/H)"
    )
    kv_heads: int | None = Field(
        None,
        gt=0,
        description="key and value heads; fewer than H is grouped-query attention (default: H)",
    )
    ffn_dim: int = Field(
        1024, gt=0, le=1 << 24, description="hidden size of the feed-forward network"
    )
    layers: int = Field(3, gt=0, le=10_000, description="blocks of each stack")
    dropout: float = Field(0.1, ge=0, lt=1, description="on embeddings and each sublayer's output")
    attention: AttentionSpec = kind_field(AttentionSpec, "a kind in attention/")
    position: PositionSpec = kind_field(PositionSpec, "a kind in positions/")
    norm: NormSpec = kind_field(NormSpec, "a kind in layers/norms/")
    norm_first: bool = Field(
        True,
        description="pre-norm: normalize before each sublayer (false: after it, as in the paper)",
    )
    feed_forward: FeedForwardSpec = kind_field(FeedForwardSpec, "a kind in layers/feedforward/")
    bias: bool = Field(True, description="biases in W_Q, W_K, W_V and W_O")
    scale_embedding: bool = Field(True, description="multiply embeddings by √D")
    embedding_norm: bool = Field(False, description="a norm on the embeddings, as in BERT")
    retained_heads: dict[str, tuple[int, ...]] | None = Field(
        None,
        description="heads left after pruning, by attention: {encoder.blocks.0.attention: [0, 2]}",
    )

    @model_validator(mode="before")
    @classmethod
    def _set_size(cls, content: Any) -> Any:
        if isinstance(content, Mapping) and content.get("size") in SIZES:
            return {**SIZES[content["size"]], **content}
        return content

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> Self:
        if self.head_dim is None and self.dim % self.heads:
            raise ValueError(
                f"dim: {self.dim} cannot be divided into {self.heads} heads; change dim or heads"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"kv_heads: {self.heads} heads cannot share {self.kv_heads} key heads evenly; "
                f"choose a divisor"
            )
        return self

    @property
    def needs_trees(self) -> bool:
        return self.position.needs_trees

    @property
    def sizes(self) -> Sizes:
        head_dim = self.head_dim or self.dim // self.heads
        return Sizes(self.dim, self.heads, head_dim, self.max_length, self.kv_heads)


def embedding(spec: TransformerSpec, tokens: nn.Embedding) -> Embedding:
    """Build the embedding layer around a token embedding."""
    return Embedding(
        tokens,
        spec.position.at_embedding(spec.sizes),
        scale=spec.dim**0.5 if spec.scale_embedding else 1.0,
        norm=spec.norm.build(spec.dim) if spec.embedding_norm else nn.Identity(),
        dropout=spec.dropout,
    )


def encoder_blocks(spec: TransformerSpec, attention: AttentionSpec) -> nn.ModuleList:
    """Build the blocks of an encoder."""
    key = "model.attention" if attention is spec.attention else "model.encoder_attention"
    attention.require(frozenset({"padding"}), "an encoder", key)
    attention.require(spec.position.requires, _position_key(spec), key)
    return nn.ModuleList(
        EncoderBlock(_self_attention(spec, layer), _feed_forward(spec), lambda: _residual(spec))
        for layer in attention.stack(spec.sizes, spec.layers)
    )


def decoder_blocks(
    spec: TransformerSpec, layers: int, cross: AttentionSpec | None = None
) -> nn.ModuleList:
    """Build the blocks of a decoder, with cross-attention if `cross` is given."""
    if spec.position.needs_trees:
        raise ConfigError(
            f"{_position_key(spec)} needs the dependency tree of a sentence, and "
            f"a decoder has none for the tokens to come: choose another kind."
        )
    spec.attention.require(frozenset({"causal", "cache"}), "a decoder")
    spec.attention.require(spec.position.requires, _position_key(spec))
    cross_stack: Sequence[Attention | None] = [None] * layers
    if cross is not None:
        key = "model.attention" if cross is spec.attention else "model.cross_attention"
        cross.require(frozenset({"cross", "padding"}), "a decoder with a source", key)
        cross_stack = cross.stack(spec.sizes, layers)
    return nn.ModuleList(
        DecoderBlock(
            _self_attention(spec, attention),
            None if cross_attention is None else _cross_attention(spec, cross_attention),
            _feed_forward(spec),
            lambda: _residual(spec),
        )
        for attention, cross_attention in zip(
            spec.attention.stack(spec.sizes, layers), cross_stack, strict=True
        )
    )


def final_norm(spec: TransformerSpec) -> nn.Module:
    """Build the norm after the last block: with pre-norm its residual sum is not normalized yet."""
    return spec.norm.build(spec.dim) if spec.norm_first else nn.Identity()


def _position_key(spec: TransformerSpec) -> str:
    return f"model.position: {spec.position.kind()}"


def _self_attention(spec: TransformerSpec, attention: Attention) -> MultiHead:
    return MultiHead(spec.sizes, attention, spec.position.in_attention(spec.sizes), spec.bias)


def _cross_attention(spec: TransformerSpec, attention: Attention) -> MultiHead:
    # There is no distance between positions of two different sequences.
    return MultiHead(spec.sizes, attention, InAttention(), spec.bias)


def _feed_forward(spec: TransformerSpec) -> nn.Module:
    return spec.feed_forward.build(spec.dim, spec.ffn_dim)


def _residual(spec: TransformerSpec) -> Residual:
    return Residual(spec.norm.build(spec.dim), spec.norm_first, spec.dropout)
