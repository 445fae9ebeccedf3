"""Read safetensors files: the header is checked first, then each tensor is read into its memory.

    8 bytes    N, the size of the header
    N bytes    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
    the rest   the tensors, without gaps

A matrix may be stored in 8 bits (I8), with a float32 scale for each row in NAME.scale; it is read
as the float32 matrix of their products.

`read_tensors` reads torch tensors, whose memory is the only one; the checksum is computed on the
way. `map_tensors` maps the file as arrays: pages are read when they are used, and several processes
share them.
"""

import hashlib
import math
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import shortened
from regard.errors import RunError
from regard.json_files import JsonSpec, parse_json, validate_json

if TYPE_CHECKING:
    from torch import Tensor

MAX_HEADER = 1 << 26  # bytes
METADATA = "__metadata__"
BFLOAT16 = "BF16"  # which numpy does not have
INT8, SCALE = "I8", ".scale"
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", BFLOAT16: "<u2", INT8: "i1"}
CHUNK = 1 << 18  # bytes that are hashed at once

Size = Annotated[int, Field(ge=0, le=1 << 62)]


class TensorInfo(JsonSpec):
    """Type, shape and place of one tensor."""

    dtype: str = Field(max_length=16)
    shape: list[Size] = Field(max_length=16)
    data_offsets: list[Size] = Field(min_length=2, max_length=2)


def read_tensors(path: Path) -> "tuple[dict[str, Tensor], str]":
    """Read all tensors of a file.

    Returns:
        The tensors by name, and the SHA-256 of the file.

    Raises:
        RunError: the file cannot be read, is damaged, or has a tensor that is not of floats.
    """
    try:
        with path.open("rb") as file:
            return _read(file, path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}).") from None


class MappedTensors(Mapping[str, NDArray[Any]]):
    """The tensors of a file as arrays that cannot be written: float32, or float64.

    The memory of the pages of one tensor is given back when the next one is read.
    """

    def __init__(self, mapped: mmap.mmap, start: int, infos: "dict[str, TensorInfo]") -> None:
        self._mapped, self._start, self._stored = mapped, start, infos
        self._infos = {name: info for name, info in infos.items() if not _is_scale(name, infos)}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor by name."""
        return {name: tuple(info.shape) for name, info in self._infos.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        self.release()
        stored = self._array(name)
        if self._infos[name].dtype == INT8:
            return dequantized(stored, self._array(name + SCALE))
        return stored

    def _array(self, name: str) -> NDArray[Any]:
        info, count = self._stored[name], math.prod(self._stored[name].shape)
        dtype, place = np.dtype(DTYPES[info.dtype]), self._start + info.data_offsets[0]
        stored = np.frombuffer(self._mapped, dtype, count, place).reshape(info.shape)
        if info.dtype == BFLOAT16:  # the upper half of a float32
            return (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(np.float32) if info.dtype == "F16" else stored

    def stored_floats(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the arrays of floats as stored; of a tensor in 8 bits, its scale."""
        for name, info in self._stored.items():
            if info.dtype != INT8:
                self.release()
                yield name.removesuffix(SCALE), self._array(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def release(self) -> None:
        """Give the memory of the file's pages back; those that are used again are read again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def map_tensors(path: Path) -> tuple[MappedTensors, Callable[[], str]]:
    """Map all tensors of a file.

    Returns:
        The tensors by name, and a function that returns the SHA-256 of the file, which is computed
        meanwhile on another core.

    Raises:
        RunError: as for `read_tensors`.
    """
    try:
        with path.open("rb") as file:
            start, infos = _read_header(file, path)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            descriptor = os.dup(file.fileno())
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}).") from None
    digest = hashlib.sha256()

    def update() -> None:
        # Not from the map, whose pages would all be in memory.
        buffer = memoryview(bytearray(CHUNK))
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            file.seek(0)
            while size := file.readinto(buffer):
                digest.update(buffer[:size])  # without Python's lock

    def checksum() -> str:
        hashing.join()
        return digest.hexdigest()

    hashing = threading.Thread(target=update, daemon=True)
    hashing.start()
    return MappedTensors(mapped, len(start), dict(infos)), checksum


def require_finite(weights: MappedTensors, where: str) -> None:
    """Raise RunError for a weight that is NaN or infinite: decoding would give wrong text."""
    for name, array in weights.stored_floats():
        # The extremes are not finite if any value is not.
        if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
            raise RunError(
                f"{where}: {name} has values that are not finite (NaN or infinity); the model was "
                f"damaged, or diverged in training: use an earlier one."
            )


def _read(file: BufferedReader, path: Path) -> "tuple[dict[str, Tensor], str]":
    import torch

    start, infos = _read_header(file, path)
    digest, tensors = hashlib.sha256(start), {}
    for name, info in infos:
        array = np.empty(info.shape, DTYPES[info.dtype])
        data = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        if array.nbytes and file.readinto(data) != array.nbytes:
            raise RunError(f"{path}: ends within {shortened(name)}; it changed while it was read.")
        digest.update(data)
        tensor = torch.from_numpy(array)
        tensors[name] = tensor.view(torch.bfloat16) if info.dtype == BFLOAT16 else tensor
    for name in [name for name, info in infos if info.dtype == INT8]:
        scale = tensors.pop(name + SCALE).numpy()
        tensors[name] = torch.from_numpy(dequantized(tensors[name].numpy(), scale))
    return tensors, digest.hexdigest()


def _read_header(file: BufferedReader, path: Path) -> tuple[bytes, list[tuple[str, TensorInfo]]]:
    """Return the bytes before the first tensor, and the tensors in their order."""
    size = os.fstat(file.fileno()).st_size
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(size - 8, MAX_HEADER):
        raise RunError(f"{path}: not a safetensors file, or damaged (its header is incomplete).")
    header = file.read(length)
    content = parse_json(header, f"{path}: header")
    if not isinstance(content, dict):
        raise RunError(f"{path}: not a safetensors file, or damaged (its header is not an object).")
    infos = [
        (name, validate_json(TensorInfo, info, f"{path}: header: {shortened(name)}"))
        for name, info in content.items()
        if name != METADATA
    ]
    _check_scales(dict(infos), path)
    infos.sort(key=lambda item: item[1].data_offsets)
    end = 0
    for name, info in infos:
        end = _check_place(info, end, f"{path}: {shortened(name)}")
    if 8 + length + end != size:
        raise RunError(
            f"{path}: damaged: its header describes {8 + length + end:,} bytes and it has {size:,}."
        )
    return first + header, infos


def _is_scale(name: str, infos: "Mapping[str, TensorInfo]") -> bool:
    """Return whether a tensor has the scales of a matrix in 8 bits."""
    matrix = infos.get(name.removesuffix(SCALE)) if name.endswith(SCALE) else None
    return matrix is not None and matrix.dtype == INT8


def _check_scales(infos: "Mapping[str, TensorInfo]", path: Path) -> None:
    """Check that every matrix in 8 bits has a scale for each row."""
    for name, info in infos.items():
        if info.dtype != INT8:
            continue
        scale = infos.get(name + SCALE)
        if len(info.shape) != 2 or scale is None or scale.dtype != "F32":
            problem = "is no matrix" if len(info.shape) != 2 else "has no float32 scales"
            raise RunError(f"{path}: {shortened(name)} has 8 bits and {problem}; restore the file.")
        if scale.shape != info.shape[:1]:
            raise RunError(
                f"{path}: {shortened(name)} has {info.shape[0]:,} rows, and {scale.shape} is the "
                f"shape of their scales; restore the file."
            )


def quantized(matrix: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return a matrix in 8 bits, and the scale of each row: its largest weight becomes 127."""
    scale = (np.abs(matrix).max(axis=1, initial=0) / 127).astype(np.float32)
    steps = matrix / np.where(scale > 0, scale, 1)[:, None]
    return np.rint(steps).clip(-127, 127).astype(np.int8), scale


def dequantized(steps: NDArray[Any], scale: NDArray[Any]) -> NDArray[np.float32]:
    """Return the matrix that `quantized` has rounded."""
    matrix: NDArray[np.float32] = steps.astype(np.float32)
    matrix *= scale[:, None]  # in place: a second array would cost as much as the product
    return matrix


def _check_place(info: TensorInfo, begin: int, where: str) -> int:
    """Check that a tensor begins where the one before it ends; return its own end."""
    if info.dtype not in DTYPES:
        raise RunError(
            f"{where} is of type {shortened(info.dtype)}; weights are of type {', '.join(DTYPES)}."
        )
    end = begin + math.prod(info.shape) * np.dtype(DTYPES[info.dtype]).itemsize
    if info.data_offsets != [begin, end]:
        raise RunError(
            f"{where} should be at the bytes {begin:,} to {end:,} by its shape, and the header "
            f"has {info.data_offsets[0]:,} to {info.data_offsets[1]:,}; the file is damaged."
        )
    return end
