"""Tables of positions for the engine: what positions/ computes with torch, as arrays."""

import math

import numpy as np
from numpy.typing import NDArray

from regard.engine.plan import DistanceBias, RotaryScaling, Rotation, Sinusoids, Slopes

Floats = NDArray[np.float32]


def sinusoids(position: Sinusoids, length: int, dim: int) -> Floats:
    """Return the vectors (length, dim) of the first positions."""
    angles = np.arange(length)[:, None] / position.base ** (np.arange(0, dim, 2) / dim)
    sines, cosines = np.sin(angles), np.cos(angles)
    if position.layout == "halves":
        vectors = np.concatenate([sines, cosines[:, : dim // 2]], axis=1)
    else:
        vectors = np.stack([sines, cosines], axis=2).reshape(length, -1)[:, :dim]
    return vectors.astype(np.float32)


def rotations(rotation: Rotation, length: int, head_dim: int) -> tuple[Floats, Floats]:
    """Return the cosines and sines (length, head_dim / 2) of the angles of the first positions."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    frequencies = np.float32(rotation.base) ** -exponents
    if rotation.scaling is not None:
        frequencies = _scaled(frequencies, rotation.scaling)
    angles = np.arange(length, dtype=np.float32)[:, None] * frequencies
    return np.cos(angles), np.sin(angles)


def _scaled(frequencies: Floats, scaling: RotaryScaling) -> Floats:
    divided: Floats = frequencies / np.float32(scaling.factor)
    if scaling.context is None:
        return divided
    periods = frequencies * np.float32(scaling.context / (2 * math.pi))
    kept = np.clip((periods - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return np.asarray(kept * frequencies + (1 - kept) * divided, np.float32)


def slope_bias(slopes: Slopes, length: int) -> Floats:
    """Return the bias (H, 2 · length − 1) of each distance, from 1 − length to length − 1."""
    distances = np.abs(np.arange(1 - length, length))
    return -np.array(slopes.values, np.float32)[:, None] * distances.astype(np.float32)


def distance_bias(bias: DistanceBias, table: Floats, length: int) -> Floats:
    """Return the bias (H, 2 · length − 1) of each distance, from 1 − length to length − 1."""
    distances = np.clip(np.arange(1 - length, length), -bias.clip, bias.clip)
    return table[:, distances + bias.clip]
