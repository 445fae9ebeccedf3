"""Store the weight matrices of a run in 8 bits (`regard quantize`): a quarter of the size.

Each row is rounded to 255 steps of its own size; vectors (biases, norms) stay as they are. The run
is read as any other, with the rounded weights; `regard evaluate` measures what that costs.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard import run_folder
from regard.merged_run import read_merged
from regard.tensor_files import SCALE, quantized

if TYPE_CHECKING:
    from torch import Tensor


def quantize(folder: Path, output: Path, overwrite: bool = False) -> tuple[int, int]:
    """Write the run of a folder to `output`, with its matrices in 8 bits.

    Returns:
        The number of bytes of the weights before and after.

    Raises:
        OutputError: `output` holds a run, unless `overwrite`.
    """
    with run_folder.writing(output):
        run_folder.refuse_to_replace(output, overwrite, folder)
        run = read_merged(folder)
        weights = _in_8_bits(run.weights)
        card = f"# {folder.name}, in 8 bits\n\nMade with Regard from {folder.name}.\n"
        documents = {"README.md": card}
        run_folder.write(replace(run, weights=weights, documents=documents), output)
    return _size(run.weights), _size(weights)


def _in_8_bits(weights: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    import torch

    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim != 2:
            stored[name] = tensor
            continue
        steps, scale = quantized(tensor.float().numpy())
        stored[name], stored[name + SCALE] = torch.from_numpy(steps), torch.from_numpy(scale)
    return stored


def _size(weights: "Mapping[str, Tensor]") -> int:
    return sum(tensor.nbytes for tensor in weights.values())
