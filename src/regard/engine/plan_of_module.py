"""The plan of a torch module: what its layers compute, and its tensors by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.fused import Fused
from regard.attention.multi_head import MultiHead
from regard.attention.reference import Reference
from regard.engine.plan import (
    LAYER_NORM,
    RMS_NORM,
    Attention,
    DistanceBias,
    EncoderPlan,
    FeedForward,
    Layer,
    LearnedPositions,
    Linear,
    ModelPlan,
    Norm,
    Plan,
    Pooling,
    RotaryScaling,
    Rotation,
    Sinusoids,
    Slopes,
    Stack,
    Transform,
    UnsupportedError,
)
from regard.errors import RunError
from regard.layers.decoder import DecoderBlock
from regard.layers.encoder import EncoderBlock
from regard.layers.feedforward.dense import Dense
from regard.layers.feedforward.gated import Gated
from regard.layers.norms.layer import LayerNorm
from regard.layers.norms.rms import RMSNorm
from regard.layers.pooling.attention import AttentionPooling
from regard.layers.pooling.first import First
from regard.layers.pooling.max import Max
from regard.layers.pooling.mean import Mean
from regard.models.classifier import ClassifierModel
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel
from regard.models.masked_lm import MaskedLM
from regard.models.masked_lm import Transform as TransformModule
from regard.positions.alibi import Alibi
from regard.positions.base import AtEmbedding, InAttention
from regard.positions.distance import Distance
from regard.positions.learned import Learned
from regard.positions.rotary import Rotary
from regard.positions.sinusoidal import Sinusoidal

PLANNED = (EncoderDecoder, LanguageModel, Encoder, MaskedLM, ClassifierModel)


def plan_of_module(model: nn.Module) -> tuple[Plan, dict[str, NDArray[np.float32]]]:
    """Return the plan of a model, and its tensors by name.

    Raises:
        UnsupportedError: The engine cannot compute one of its layers.
        RunError: A weight is NaN or infinite: decoding would give wrong text.
    """
    if type(model) not in PLANNED:
        raise UnsupportedError(f"model {type(model).__name__}")
    check_finite(model)
    planner = _Planner(model)
    return planner.plan(model), planner.weights


def check_finite(model: nn.Module) -> None:
    """Raise RunError for a weight that is NaN or infinite."""
    for name, parameter in model.named_parameters():
        if parameter.numel() and not all(x.isfinite() for x in parameter.detach().aminmax()):
            raise RunError(
                f"the model's weights are damaged: {name} contains a number that is not finite "
                f"(NaN or infinity); restore the run folder or train the model again."
            )


class _Planner:
    """Walks over the modules of a model and collects their tensors by name."""

    def __init__(self, model: nn.Module) -> None:
        # A shared parameter has one name; a tensor that an adapter computes, that of its place.
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.weights: dict[str, NDArray[np.float32]] = {}

    def plan(self, model: Any) -> Plan:
        if isinstance(model, Encoder):
            return EncoderPlan(self._stack(model, ""))
        if isinstance(model, LanguageModel):
            return ModelPlan(None, self._stack(model.decoder, "decoder."))
        encoder = self._stack(model.encoder, "encoder.")
        if isinstance(model, EncoderDecoder):
            return ModelPlan(encoder, self._stack(model.decoder, "decoder."))
        pooling = self._pooling(model.pool) if isinstance(model, ClassifierModel) else None
        transform = self._transform(model.transform) if isinstance(model, MaskedLM) else None
        return EncoderPlan(encoder, pooling, transform, self._linear(model.output, "output"))

    def _pooling(self, pool: nn.Module) -> Pooling:
        if isinstance(pool, AttentionPooling):
            return Pooling("attention", self._name(pool.query, "pool.query"))
        if isinstance(pool, Mean):
            return Pooling("mean")
        if isinstance(pool, First):
            return Pooling("first")
        if isinstance(pool, Max):
            return Pooling("max")
        raise UnsupportedError(f"pooling {type(pool).__name__}")

    def _transform(self, transform: nn.Module) -> Transform | None:
        if isinstance(transform, nn.Identity):
            return None
        if not isinstance(transform, TransformModule):
            raise UnsupportedError(f"transform {type(transform).__name__}")
        return Transform(
            self._linear(transform.dense, "transform.dense"),
            _code(transform.engine_activation),
            self._norm(transform.norm, "transform.norm"),
        )

    def _stack(self, stack: Any, prefix: str) -> Stack:
        if type(stack) not in (Encoder, Decoder):
            raise UnsupportedError(f"stack {type(stack).__name__}")
        embedding, blocks = stack.embedding, list(stack.blocks)
        for block in blocks:
            if not isinstance(block, (EncoderBlock, DecoderBlock)):
                raise UnsupportedError(f"block {type(block).__name__}")
        layers = [
            self._layer(block, f"{prefix}blocks.{number}") for number, block in enumerate(blocks)
        ]
        output = getattr(stack, "output", None)
        first = blocks[0]
        return Stack(
            dim=embedding.tokens.embedding_dim,
            head_dim=first.attention.head_dim,
            ffn_dim=first.feed_forward.down_proj.in_features,
            norm_first=first.attention_residual.norm_first,
            tokens=self._name(embedding.tokens.weight, f"{prefix}embedding.tokens.weight"),
            num_embeddings=embedding.tokens.num_embeddings,
            embedding_scale=embedding.scale,
            position=self._position(embedding.position, f"{prefix}embedding.position"),
            rotation=_rotation([block.attention.position for block in blocks]),
            embedding_norm=self._norm(embedding.norm, f"{prefix}embedding.norm"),
            layers=layers,
            final_norm=self._norm(stack.norm, f"{prefix}norm"),
            output=None if output is None else self._linear(output, f"{prefix}output"),
        )

    def _layer(self, block: Any, path: str) -> Layer:
        cross = getattr(block, "cross", None)
        residual = f"{path}.{{}}_residual.norm"
        return Layer(
            attention_norm=self._norm(block.attention_residual.norm, residual.format("attention")),
            attention=self._attention(block.attention, f"{path}.attention"),
            distance_bias=self._distances(block.attention.position, f"{path}.attention.position"),
            cross_norm=self._norm(block.cross_residual.norm, residual.format("cross"))
            if cross
            else Norm(),
            cross=self._attention(cross, f"{path}.cross") if cross else None,
            feed_forward_norm=self._norm(
                block.feed_forward_residual.norm, residual.format("feed_forward")
            ),
            feed_forward=self._feed_forward(block.feed_forward, f"{path}.feed_forward"),
        )

    def _attention(self, attention: MultiHead, path: str) -> Attention:
        if not isinstance(attention.attention, (Fused, Reference)):
            raise UnsupportedError(f"attention {type(attention.attention).__name__}")
        return Attention(
            self._linear(attention.w_q, f"{path}.w_q"),
            self._linear(attention.w_k, f"{path}.w_k"),
            self._linear(attention.w_v, f"{path}.w_v"),
            self._linear(attention.w_o, f"{path}.w_o"),
            attention.heads,
            attention.kv_heads,
        )

    def _feed_forward(self, network: nn.Module, path: str) -> FeedForward:
        if not isinstance(network, (Dense, Gated)):
            raise UnsupportedError(f"feed-forward network {type(network).__name__}")
        gate = network.gate_proj if isinstance(network, Gated) else None
        return FeedForward(
            None if gate is None else self._linear(gate, f"{path}.gate_proj"),
            self._linear(network.up_proj, f"{path}.up_proj"),
            self._linear(network.down_proj, f"{path}.down_proj"),
            _code(network.engine_activation),
        )

    def _linear(self, linear: nn.Linear, path: str) -> Linear:
        bias = None if linear.bias is None else self._name(linear.bias, f"{path}.bias")
        weight = self._name(linear.weight, f"{path}.weight")
        return Linear(weight, bias, linear.out_features, linear.in_features)

    def _norm(self, norm: nn.Module, path: str) -> Norm:
        if isinstance(norm, nn.Identity):
            return Norm()
        if not isinstance(norm, (LayerNorm, RMSNorm)):
            raise UnsupportedError(f"norm {type(norm).__name__}")
        bias = norm.bias if isinstance(norm, LayerNorm) else None
        return Norm(
            LAYER_NORM if isinstance(norm, LayerNorm) else RMS_NORM,
            norm.eps,
            None if norm.gain is None else self._name(norm.gain, f"{path}.gain"),
            None if bias is None else self._name(bias, f"{path}.bias"),
        )

    def _position(self, position: AtEmbedding, path: str) -> Sinusoids | LearnedPositions | None:
        if isinstance(position, Sinusoidal):
            return Sinusoids(position.base, position.layout)
        if isinstance(position, Learned):
            return LearnedPositions(
                self._name(position.table, f"{path}.table"), len(position.table)
            )
        if type(position) is not AtEmbedding:
            raise UnsupportedError(f"positions {type(position).__name__}")
        return None

    def _distances(self, position: InAttention, path: str) -> Slopes | DistanceBias | None:
        if isinstance(position, Alibi):
            return Slopes(tuple(position.values_by_head))
        if isinstance(position, Distance):
            table = self._name(position.table, f"{path}.table")
            return DistanceBias(table, len(position.table), position.clip)
        if type(position) is not InAttention and not isinstance(position, Rotary):
            raise UnsupportedError(f"positions {type(position).__name__}")
        return None

    def _name(self, tensor: Tensor, place: str) -> str:
        name = self._names.get(id(tensor), place)
        if name not in self.weights:
            self.weights[name] = tensor.detach().float().numpy()
        return name


def _code(activation: int | None) -> int:
    if activation is None:
        raise UnsupportedError("activation without a code in the engine")
    return activation


def _rotation(positions: Sequence[InAttention]) -> Rotation | None:
    """Return the rotary positions, which all layers share."""
    rotations = {
        Rotation(
            position.base,
            position.pairs,
            None
            if (scaling := position.scaling) is None
            else RotaryScaling(scaling.factor, scaling.context, scaling.low, scaling.high),
        )
        if isinstance(position, Rotary)
        else None
        for position in positions
    }
    if len(rotations) > 1:
        raise UnsupportedError("positions that differ between layers")
    return rotations.pop()
