"""Arrays as base64 text in the JSON of a page.

32-bit floats as they are; attention weights in 16 bits, and only at unmasked positions; masks at
one bit a position.
"""

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

WEIGHT_ONE = 65535  # the 16-bit value of a weight of 1


def pack_floats(values: Floats) -> dict[str, Any]:
    """Pack an array as little-endian 32-bit floats."""
    return _pack(values.astype("<f4"), "f32")


def pack_weights(weights: Floats, may_attend: Mask | None = None) -> dict[str, Any]:
    """Pack values from 0 to 1 in 16 bits: half the size, with an error below 1e-5.

    With `may_attend` (layers, queries, keys), only the weights where it is True are written, layer
    by layer and head by head.
    """
    written = weights
    if may_attend is not None:
        layers = zip(weights, may_attend, strict=True)
        written = np.concatenate([layer[:, allowed].ravel() for layer, allowed in layers])
    scaled = np.round(np.clip(written, 0, 1).astype(np.float64) * WEIGHT_ONE)
    return {**_pack(scaled.astype("<u2"), "u16"), "shape": list(weights.shape)}


def unpack_weights(content: dict[str, Any], may_attend: Mask | None = None) -> Floats:
    """Invert `pack_weights`; weights where `may_attend` is False are 0."""
    written = np.frombuffer(base64.b64decode(content["data"]), "<u2").astype(np.float32)
    if may_attend is None:
        return (written / WEIGHT_ONE).reshape(content["shape"])
    weights = np.zeros(content["shape"], np.float32)
    weights[np.broadcast_to(may_attend[:, None], weights.shape)] = written / WEIGHT_ONE
    return weights


def pack_mask(mask: Mask) -> dict[str, Any]:
    """Pack a mask at one bit a position, lowest bit first."""
    return {**_pack(np.packbits(mask, bitorder="little"), "bits"), "shape": list(mask.shape)}


def unpack_mask(content: dict[str, Any]) -> Mask:
    """Invert `pack_mask`."""
    octets = np.frombuffer(base64.b64decode(content["data"]), np.uint8)
    bits = np.unpackbits(octets, count=int(np.prod(content["shape"])), bitorder="little")
    return bits.reshape(content["shape"]).astype(bool)


def _pack(array: npt.NDArray[Any], kind: str) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"type": kind, "shape": list(array.shape), "data": data}
