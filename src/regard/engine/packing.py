"""Pack a plan and its tensors for the engine: weights in panels, positions as tables."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.engine import library as c
from regard.engine import tables
from regard.engine.plan import (
    DistanceBias,
    Layer,
    LearnedPositions,
    Linear,
    Norm,
    Sinusoids,
    Slopes,
    Stack,
    Transform,
    UnsupportedError,
)
from regard.hardware import num_threads

Floats = NDArray[np.float32]
Weights = Mapping[str, NDArray[Any]]


class Matrix:
    """A linear map with packed weights."""

    def __init__(self, weight: Floats, bias: Floats | None, bits: int) -> None:
        weight, bias = floats(weight), None if bias is None else floats(bias)
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


class PackedTransform:
    """A packed linear map with an activation and a norm."""

    def __init__(self, plan: Transform, weights: Weights, bits: int) -> None:
        self.dense, self._activation = stacked([plan.dense], weights, bits), plan.activation
        names = (plan.norm.gain, plan.norm.bias)
        self._vectors = [None if name is None else floats(weights[name]) for name in names]
        addresses = [None if vector is None else vector.ctypes.data for vector in self._vectors]
        self._norm = c.Norm(*addresses, plan.norm.eps, plan.norm.kind)

    def __call__(self, x: Floats) -> Floats:
        """Map x (M, inputs) to (M, outputs)."""
        y = np.empty((len(x), self.dense.outputs), np.float32)
        library = c.library()
        assert library is not None
        library.regard_transform(
            self.dense.address,
            self._activation,
            ctypes.byref(self._norm),
            x.ctypes.data,
            len(x),
            y.ctypes.data,
            num_threads(),
        )
        return y


class PackedStack:
    """The blocks of an encoder or a decoder, and the arrays and matrices that they point to.

    Args:
        plan: The plan of the blocks.
        weights: Their tensors by name.
        capacity: Maximum number of tokens.
        bits: Bits of the weights.
        packed: Packed matrices by the name of their weights, to which this output layer is added:
            embeddings in one of them are not stored again.
    """

    def __init__(
        self,
        plan: Stack,
        weights: Weights,
        capacity: int,
        bits: int,
        packed: dict[str, Matrix] | None = None,
    ) -> None:
        self._weights, self._capacity, self._bits = weights, capacity, bits
        self._packed = {} if packed is None else packed
        self._referenced: list[Any] = []  # kept alive for the pointers of the structs
        output = None if plan.output is None else self._output(plan.output)
        self.layers = (c.Layer * len(plan.layers))(*map(self._layer, plan.layers))
        self.cache_width = 2 * plan.kv_heads * plan.head_dim
        self.stack = c.Stack(
            dim=plan.dim,
            heads=max(attention.heads for attention in plan.attentions),
            kv_heads=plan.kv_heads,
            head_dim=plan.head_dim,
            ffn_dim=plan.ffn_dim,
            layers=len(plan.layers),
            capacity=capacity,
            vocabulary=plan.num_embeddings if plan.output is None else plan.output.outputs,
            norm_first=plan.norm_first,
            activation=plan.layers[0].feed_forward.activation,
            embedding_scale=plan.embedding_scale,
            score_scale=plan.head_dim**-0.5,
            positions=self._positions(plan),
            embedding_norm=self._norm(plan.embedding_norm),
            final_norm=self._norm(plan.final_norm),
            layer=self.layers,
            output=output,
            **self._embeddings(plan.tokens),
            **self._rotation(plan),
        )
        del self._weights, self._packed

    def _layer(self, layer: Layer) -> c.Layer:
        own, cross, feed_forward = layer.attention, layer.cross, layer.feed_forward
        return c.Layer(
            attention_norm=self._norm(layer.attention_norm),
            cross_norm=self._norm(layer.cross_norm),
            feed_forward_norm=self._norm(layer.feed_forward_norm),
            project=self._matrix(own.query, own.key, own.value),
            merge=self._matrix(own.output),
            cross_query=self._matrix(cross.query) if cross else None,
            cross_merge=self._matrix(cross.output) if cross else None,
            gate=self._matrix(feed_forward.gate) if feed_forward.gate else None,
            up_proj=self._matrix(feed_forward.up),
            down_proj=self._matrix(feed_forward.down),
            distance_bias=self._distances(layer.distance_bias),
            heads=own.heads,
            kv_heads=own.kv_heads,
            cross_heads=cross.heads if cross else 0,
            cross_kv_heads=cross.kv_heads if cross else 0,
        )

    def _matrix(self, *maps: Linear) -> int | None:
        matrix = stacked(maps, self._weights, self._bits)
        self._referenced.append(matrix)
        return matrix.address

    def _output(self, output: Linear) -> int | None:
        matrix = packed_output(output, self._weights, self._bits)
        self._packed[output.weight] = matrix
        self._referenced.append(matrix)
        return matrix.address

    def _embeddings(self, name: str) -> dict[str, Any]:
        if self._bits < 32 or name not in self._packed:
            return {"tokens": self._tensor(name)}
        self._referenced.append(self._packed[name])
        return {"token_matrix": self._packed[name].address}

    def _tensor(self, name: str | None) -> int | None:
        return None if name is None else self._numbers(self._weights[name])

    def _numbers(self, array: NDArray[Any]) -> int:
        numbers = floats(array)
        self._referenced.append(numbers)
        return int(numbers.ctypes.data)

    def _norm(self, norm: Norm) -> c.Norm:
        return c.Norm(self._tensor(norm.gain), self._tensor(norm.bias), norm.eps, norm.kind)

    def _positions(self, plan: Stack) -> int | None:
        if isinstance(plan.position, Sinusoids):
            return self._numbers(tables.sinusoids(plan.position, self._capacity, plan.dim))
        if isinstance(plan.position, LearnedPositions):
            if plan.position.rows < self._capacity:
                raise UnsupportedError("fewer learned positions than tokens")
            return self._tensor(plan.position.table)
        return None

    def _rotation(self, plan: Stack) -> dict[str, Any]:
        if plan.rotation is None:
            return {}
        cosines, sines = tables.rotations(plan.rotation, self._capacity, plan.head_dim)
        return {
            "rotary": 2 if plan.rotation.pairs == "halves" else 1,
            "cosines": self._numbers(cosines),
            "sines": self._numbers(sines),
        }

    def _distances(self, bias: Slopes | DistanceBias | None) -> int | None:
        if isinstance(bias, Slopes):
            return self._numbers(tables.slope_bias(bias, self._capacity))
        if isinstance(bias, DistanceBias):
            table = floats(self._weights[bias.table])
            return self._numbers(tables.distance_bias(bias, table, self._capacity))
        return None


def packed_output(output: Linear, weights: Weights, bits: int) -> Matrix:
    """Pack an output layer, in 8 bits at least: rounding it changes every logit."""
    return stacked([output], weights, max(bits, 8))


def stacked(maps: Sequence[Linear], weights: Weights, bits: int, min_outputs: int = 0) -> Matrix:
    """Stack linear maps of one input to one matrix, each padded to `min_outputs` outputs."""
    sizes = [max(linear.outputs, min_outputs) for linear in maps]
    if len(maps) == 1 and maps[0].outputs == sizes[0]:
        bias = None if maps[0].bias is None else weights[maps[0].bias]
        return Matrix(weights[maps[0].weight], bias, bits)
    weight = np.zeros((sum(sizes), maps[0].inputs), np.float32)
    biases = np.zeros(len(weight), np.float32)
    start = 0
    for linear, size in zip(maps, sizes, strict=True):
        rows = slice(start, start + linear.outputs)
        weight[rows] = weights[linear.weight]
        if linear.bias is not None:
            biases[rows] = weights[linear.bias]
        start += size
    return Matrix(weight, biases, bits)


def floats(array: NDArray[Any]) -> Floats:
    """Return the array as float32, contiguous and aligned; itself if it is."""
    return np.require(array, np.float32, ["C_CONTIGUOUS", "ALIGNED"])


assert ctypes.sizeof(ctypes.c_int) == 4
