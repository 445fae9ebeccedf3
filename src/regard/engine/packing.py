"""Pack the blocks of a model for the engine: weights in panels, positions as tables.

A layer that the engine does not support raises UnsupportedError; the model then decodes with torch.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.fused import Fused
from regard.attention.multi_head import MultiHead
from regard.attention.reference import Reference
from regard.engine import library as c
from regard.errors import RunError
from regard.hardware import num_threads
from regard.layers.decoder import DecoderBlock
from regard.layers.encoder import EncoderBlock
from regard.layers.feedforward.dense import Dense
from regard.layers.feedforward.gated import Gated
from regard.layers.norms.layer import LayerNorm
from regard.layers.norms.rms import RMSNorm
from regard.models.embedding import Embedding
from regard.positions.alibi import Alibi
from regard.positions.base import AtEmbedding, InAttention
from regard.positions.distance import Distance
from regard.positions.rotary import Rotary

Floats = NDArray[np.float32]


class UnsupportedError(Exception):
    """The engine cannot compute this model."""


def check_finite(model: nn.Module) -> None:
    """Raise RunError for a weight that is NaN or infinite: decoding would give wrong text."""
    for name, parameter in model.named_parameters():
        if parameter.numel() and not all(x.isfinite() for x in parameter.detach().aminmax()):
            raise RunError(
                f"the model's weights are damaged: {name} contains a number that is not finite "
                f"(NaN or infinity); restore the run folder or train the model again."
            )


class Matrix:
    """A linear map with packed weights."""

    def __init__(self, weight: Floats, bias: Floats | None, bits: int) -> None:
        weight = np.ascontiguousarray(weight)
        bias = None if bias is None else np.ascontiguousarray(bias)
        self.outputs, self.inputs = weight.shape
        library = c.library()
        assert library is not None
        self._free = library.regard_free_matrix
        result = ctypes.c_void_p()
        library.regard_matrix(
            weight.ctypes.data,
            None if bias is None else bias.ctypes.data,
            self.outputs,
            self.inputs,
            bits,
            ctypes.byref(result),
        )
        self.address = result.value

    def __call__(self, x: Floats) -> Floats:
        """Map x (M, inputs) to (M, outputs)."""
        y = np.empty((len(x), self.outputs), np.float32)
        library = c.library()
        assert library is not None
        library.regard_apply(self.address, x.ctypes.data, len(x), y.ctypes.data, num_threads())
        return y

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self._free(self.address)


class PackedStack:
    """The blocks of an encoder or a decoder, and the tensors and matrices that they point to."""

    def __init__(
        self,
        embedding: Embedding,
        blocks: Sequence[Any],
        final_norm: nn.Module,
        output: nn.Linear | None,
        capacity: int,
        bits: int,
    ) -> None:
        for block in blocks:
            if not isinstance(block, (EncoderBlock, DecoderBlock)):
                raise UnsupportedError(f"block {type(block).__name__}")
        self.bits = bits
        self._referenced: list[Any] = []  # kept alive for the pointers of the structs
        attention, feed_forward = blocks[0].attention, blocks[0].feed_forward
        norm_first = blocks[0].attention_residual.norm_first
        dim = embedding.tokens.embedding_dim
        if output is not None and output.out_features > embedding.tokens.num_embeddings:
            raise UnsupportedError("more outputs than embeddings")
        # Heads may have been pruned: sizes that all layers share are those of the widest layer.
        attentions = [attention for block in blocks for attention in _attentions(block)]
        heads, kv_heads = max(a.heads for a in attentions), max(a.kv_heads for a in attentions)
        self.layers = (c.Layer * len(blocks))(*(self._layer(block, capacity) for block in blocks))
        self.cache_width = 2 * kv_heads * attention.head_dim
        self.stack = c.Stack(
            dim=dim,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=attention.head_dim,
            ffn_dim=feed_forward.down_proj.in_features,
            layers=len(blocks),
            capacity=capacity,
            vocabulary=embedding.tokens.num_embeddings if output is None else output.out_features,
            norm_first=norm_first,
            activation=_activation(feed_forward),
            embedding_scale=embedding.scale,
            score_scale=attention.head_dim**-0.5,
            tokens=self._numbers(embedding.tokens.weight),
            positions=self._positions(embedding.position, dim, capacity),
            embedding_norm=self._norm(embedding.norm),
            final_norm=self._norm(final_norm),
            layer=self.layers,
            output=None if output is None else self._matrix(output),
            **self._rotation(attention.position, attention, capacity),
        )

    def _layer(self, block: Any, capacity: int) -> c.Layer:
        cross = _cross(block)
        feed_forward = block.feed_forward
        if not isinstance(feed_forward, (Dense, Gated)):
            raise UnsupportedError(f"feed-forward network {type(feed_forward).__name__}")
        for attention in (block.attention, cross):
            if attention is not None and not isinstance(attention.attention, (Fused, Reference)):
                raise UnsupportedError(f"attention {type(attention.attention).__name__}")
        gate = feed_forward.gate_proj if isinstance(feed_forward, Gated) else None
        own: MultiHead = block.attention
        return c.Layer(
            attention_norm=self._norm(block.attention_residual.norm),
            cross_norm=self._norm(block.cross_residual.norm) if cross else c.Norm(),
            feed_forward_norm=self._norm(block.feed_forward_residual.norm),
            project=self._matrix(own.w_q, own.w_k, own.w_v),
            merge=self._matrix(own.w_o),
            cross_query=self._matrix(cross.w_q) if cross else None,
            cross_merge=self._matrix(cross.w_o) if cross else None,
            gate=self._matrix(gate) if gate is not None else None,
            up_proj=self._matrix(feed_forward.up_proj),
            down_proj=self._matrix(feed_forward.down_proj),
            distance_bias=self._distances(own.position, own, capacity),
            heads=own.heads,
            kv_heads=own.kv_heads,
            cross_heads=cross.heads if cross else 0,
            cross_kv_heads=cross.kv_heads if cross else 0,
        )

    def _matrix(self, *maps: nn.Linear) -> int | None:
        matrix = stacked(maps, self.bits)
        self._referenced.append(matrix)
        return matrix.address

    def _numbers(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        numbers = np.ascontiguousarray(_array(tensor))
        self._referenced.append(numbers)
        return int(numbers.ctypes.data)

    def _norm(self, norm: nn.Module) -> c.Norm:
        if isinstance(norm, nn.Identity):
            return c.Norm()
        if not isinstance(norm, (LayerNorm, RMSNorm)):
            raise UnsupportedError(f"norm {type(norm).__name__}")
        bias = norm.bias if isinstance(norm, LayerNorm) else None
        kind = 1 if isinstance(norm, LayerNorm) else 2
        return c.Norm(self._numbers(norm.gain), self._numbers(bias), norm.eps, kind)

    def _positions(self, position: AtEmbedding, dim: int, capacity: int) -> int | None:
        if type(position) is AtEmbedding:
            return None
        return self._numbers(position(torch.zeros(1, capacity, dim), 0)[0])

    def _rotation(
        self, position: InAttention, attention: MultiHead, capacity: int
    ) -> dict[str, Any]:
        if not isinstance(position, Rotary):
            return {}
        # Rotating (1, 0) by an angle gives its cosine and its sine.
        ones = torch.zeros(1, 1, capacity, attention.head_dim)
        halves = position.pairs == "halves"
        first = slice(0, attention.head_dim // 2) if halves else slice(0, None, 2)
        second = slice(attention.head_dim // 2, None) if halves else slice(1, None, 2)
        ones[..., first] = 1
        rotated = position.rotate(ones, torch.arange(capacity))[0, 0]
        return {
            "rotary": 2 if halves else 1,
            "cosines": self._numbers(rotated[:, first]),
            "sines": self._numbers(rotated[:, second]),
        }

    def _distances(self, position: InAttention, attention: MultiHead, capacity: int) -> int | None:
        if isinstance(position, (Alibi, Distance)):
            distances = torch.arange(1 - capacity, capacity)
            queries = torch.zeros(1, 1, 1, attention.head_dim)
            bias = position.bias(queries, torch.zeros(1, dtype=torch.long), distances)
            return self._numbers(bias[:, 0])
        if type(position) is not InAttention and not isinstance(position, Rotary):
            raise UnsupportedError(f"positions {type(position).__name__}")
        return None


def _attentions(block: Any) -> list[MultiHead]:
    candidates = (block.attention, _cross(block))
    return [attention for attention in candidates if attention is not None]


def stacked(maps: Sequence[nn.Linear], bits: int, min_outputs: int = 0) -> Matrix:
    """Stack linear maps of one input to one matrix, each padded to `min_outputs` outputs."""
    weights, biases = [], []
    for linear in maps:
        missing = max(min_outputs - linear.out_features, 0)
        bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach()
        weights.append(nn.functional.pad(linear.weight.detach(), (0, 0, 0, missing)))
        biases.append(nn.functional.pad(bias, (0, missing)))
    return Matrix(_array(torch.cat(weights)), _array(torch.cat(biases)), bits)


def _array(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().float().numpy()
    return array


def _cross(block: Any) -> MultiHead | None:
    return getattr(block, "cross", None)


def _activation(feed_forward: Dense | Gated) -> int:
    if feed_forward.engine_activation is None:
        raise UnsupportedError("activation without a code in the engine")
    return feed_forward.engine_activation


assert ctypes.sizeof(ctypes.c_int) == 4
