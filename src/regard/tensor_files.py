"""Read safetensors files: the header is checked first, then each tensor is read into its memory.

    8 bytes    N, the size of the header
    N bytes    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
    the rest   the tensors, without gaps

The library maps the file or copies its bytes; here the only memory is that of the tensors, and the
checksum is computed while they are read.
"""

import hashlib
import math
import os
from io import BufferedReader
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from regard.config import shortened
from regard.errors import RunError
from regard.json_files import JsonSpec, parse_json, validate_json

MAX_HEADER = 1 << 26  # bytes
METADATA = "__metadata__"
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

Size = Annotated[int, Field(ge=0, le=1 << 62)]


class TensorInfo(JsonSpec):
    """Type, shape and place of one tensor."""

    dtype: str = Field(max_length=16)
    shape: list[Size] = Field(max_length=16)
    data_offsets: list[Size] = Field(min_length=2, max_length=2)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], str]:
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


def _read(file: BufferedReader, path: Path) -> tuple[dict[str, Tensor], str]:
    start, infos = _read_header(file, path)
    digest, tensors = hashlib.sha256(start), {}
    for name, info in infos:
        tensor = torch.empty(info.shape, dtype=DTYPES[info.dtype])
        data = memoryview(tensor.reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
        if tensor.nbytes and file.readinto(data) != tensor.nbytes:
            raise RunError(f"{path}: ends within {shortened(name)}; it changed while it was read.")
        digest.update(data)
        tensors[name] = tensor
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
    infos.sort(key=lambda item: item[1].data_offsets)
    end = 0
    for name, info in infos:
        end = _check_place(info, end, f"{path}: {shortened(name)}")
    if 8 + length + end != size:
        raise RunError(
            f"{path}: damaged: its header describes {8 + length + end:,} bytes and it has {size:,}."
        )
    return first + header, infos


def _check_place(info: TensorInfo, begin: int, where: str) -> int:
    """Check that a tensor begins where the one before it ends; return its own end."""
    if info.dtype not in DTYPES:
        raise RunError(
            f"{where} is of type {shortened(info.dtype)}; weights are of type {', '.join(DTYPES)}."
        )
    end = begin + math.prod(info.shape) * DTYPES[info.dtype].itemsize
    if info.data_offsets != [begin, end]:
        raise RunError(
            f"{where} should be at the bytes {begin:,} to {end:,} by its shape, and the header "
            f"has {info.data_offsets[0]:,} to {info.data_offsets[1]:,}; the file is damaged."
        )
    return end
