"""A plan of a model for the engine: sizes, codes, and the name of the tensor in every place.

It is made from a torch module (plan_of_module.py) or from the settings in a run's model.json
(plan_of_settings.py), and packed with the tensors by name (packing.py). A layer that the engine
does not support raises UnsupportedError; torch then computes the model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Shape = tuple[int, ...]

PoolingKind = Literal["mean", "first", "max", "attention"]

NO_NORM, LAYER_NORM, RMS_NORM = 0, 1, 2  # as in native/engine.h (Norm)


class UnsupportedError(Exception):
    """The engine cannot compute this model."""


class Linear(NamedTuple):
    """A linear map: names of its weight (outputs, inputs) and its bias, if any."""

    weight: str
    bias: str | None
    outputs: int
    inputs: int

    def shapes(self) -> Iterator[tuple[str, Shape]]:
        yield self.weight, (self.outputs, self.inputs)
        if self.bias is not None:
            yield self.bias, (self.outputs,)


class Norm(NamedTuple):
    """A normalization; without one, its kind is NO_NORM."""

    kind: int = NO_NORM
    eps: float = 0.0
    gain: str | None = None
    bias: str | None = None


class Attention(NamedTuple):
    """Multi-head attention; fewer key heads than heads are shared by groups."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int
    kv_heads: int


class FeedForward(NamedTuple):
    """A feed-forward network, with or without a gate."""

    gate: Linear | None
    up: Linear
    down: Linear
    activation: int  # as in native/kernels.h (enum Activation)


class Sinusoids(NamedTuple):
    """Sinusoids that are added to the embedding."""

    base: float
    layout: Literal["interleaved", "halves"]


class LearnedPositions(NamedTuple):
    """A table (rows, dim) that is added to the embedding."""

    table: str
    rows: int


class RotaryScaling(NamedTuple):
    """Smaller frequencies, for longer texts."""

    factor: float
    context: int | None
    low: float
    high: float


class Rotation(NamedTuple):
    """Rotary positions of all layers."""

    base: float
    pairs: Literal["adjacent", "halves"]
    scaling: RotaryScaling | None


class Slopes(NamedTuple):
    """The penalty of each head on the distance (ALiBi)."""

    values: tuple[float, ...]


class DistanceBias(NamedTuple):
    """A learned bias (heads, 2 · clip + 1) for each distance up to `clip`."""

    table: str
    heads: int
    clip: int


class Layer(NamedTuple):
    """A block of an encoder or decoder."""

    attention_norm: Norm
    attention: Attention
    distance_bias: Slopes | DistanceBias | None
    cross_norm: Norm
    cross: Attention | None
    feed_forward_norm: Norm
    feed_forward: FeedForward


@dataclass(frozen=True)
class Stack:
    """The blocks of an encoder or decoder, between an embedding and an output, if any."""

    dim: int
    head_dim: int
    ffn_dim: int
    norm_first: bool
    tokens: str  # (num_embeddings, dim)
    num_embeddings: int
    embedding_scale: float
    position: Sinusoids | LearnedPositions | None
    rotation: Rotation | None
    embedding_norm: Norm
    layers: Sequence[Layer]
    final_norm: Norm
    output: Linear | None

    def __post_init__(self) -> None:
        if self.output is not None and self.output.outputs > self.num_embeddings:
            raise UnsupportedError("more outputs than embeddings")
        networks = [layer.feed_forward for layer in self.layers]
        if len({(network.activation, network.down.inputs) for network in networks}) != 1:
            raise UnsupportedError("feed-forward networks that differ")

    @property
    def attentions(self) -> list[Attention]:
        both = [(layer.attention, layer.cross) for layer in self.layers]
        return [attention for pair in both for attention in pair if attention is not None]

    @property
    def kv_heads(self) -> int:
        """Number of key heads of the widest attention: heads may have been pruned."""
        return max(attention.kv_heads for attention in self.attentions)

    def shapes(self) -> Iterator[tuple[str, Shape]]:
        """Yield the name and shape of each tensor; a shared one several times."""
        yield self.tokens, (self.num_embeddings, self.dim)
        if isinstance(self.position, LearnedPositions):
            yield self.position.table, (self.position.rows, self.dim)
        norms = [self.embedding_norm, self.final_norm]
        linears = [] if self.output is None else [self.output]
        for attention in self.attentions:
            linears += [attention.query, attention.key, attention.value, attention.output]
        for layer in self.layers:
            norms += [layer.attention_norm, layer.cross_norm, layer.feed_forward_norm]
            feed_forward = layer.feed_forward
            linears += [feed_forward.up, feed_forward.down]
            linears += [] if feed_forward.gate is None else [feed_forward.gate]
            if isinstance(bias := layer.distance_bias, DistanceBias):
                yield bias.table, (bias.heads, 2 * bias.clip + 1)
        for norm in norms:
            yield from ((name, (self.dim,)) for name in (norm.gain, norm.bias) if name is not None)
        for linear in linears:
            yield from linear.shapes()


class Pooling(NamedTuple):
    """Pooling of the states of a text: mean, first, max, or attention with a learned query."""

    kind: PoolingKind
    query: str | None = None


class Transform(NamedTuple):
    """BERT's layer before the output: norm(g(W h + c))."""

    dense: Linear
    activation: int
    norm: Norm


@dataclass(frozen=True)
class EncoderPlan:
    """An encoder, and what follows its states: pooling, a transform and an output, if any."""

    encoder: Stack
    pooling: Pooling | None = None
    transform: Transform | None = None
    output: Linear | None = None

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of each tensor by name."""
        shapes, dim = dict(self.encoder.shapes()), self.encoder.dim
        if self.pooling is not None and self.pooling.query is not None:
            shapes[self.pooling.query] = (dim,)
        if self.transform is not None:
            shapes.update(self.transform.dense.shapes())
            norm = self.transform.norm
            shapes.update((name, (dim,)) for name in (norm.gain, norm.bias) if name is not None)
        if self.output is not None:
            shapes.update(self.output.shapes())
        return shapes


@dataclass(frozen=True)
class ModelPlan:
    """An encoder-decoder, or a language model, which has no encoder."""

    encoder: Stack | None
    decoder: Stack

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of each tensor by name."""
        stacks = [self.decoder] if self.encoder is None else [self.encoder, self.decoder]
        return {name: shape for stack in stacks for name, shape in stack.shapes()}


Plan = ModelPlan | EncoderPlan
