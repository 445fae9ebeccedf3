"""Weights in parts: each process keeps its share, and borrows the rest for as long as it is needed.

FSDP2, torch's `fully_shard`: a block's weights are gathered from all processes just before it
computes and given up just after; gradients, averages and the optimizer's state exist in parts only.
A part is a DTensor: some rows of a tensor, and the knowledge of where the others are.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

from regard.layers.decoder import DecoderBlock
from regard.layers.encoder import EncoderBlock


def shard(module: nn.Module, device: torch.device, size: int) -> None:
    """Cut a module's weights up: each block's together, and together what is outside of blocks."""
    # Here, for it takes most of a second, and few runs need it.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (size,))
    for block in _blocks(module):
        if isinstance(block, DecoderBlock) and block.cross is not None:
            # Its keys and values are wanted before its block's turn, and it stays until backward.
            fully_shard(block.cross, mesh=mesh, reshard_after_forward=False)
            for method in ("remember", "ask"):
                register_fsdp_forward_method(block.cross, method)
        fully_shard(block, mesh=mesh)
    # It warns that views must not be changed in place. Blocks return such, and nobody changes them.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
    fully_shard(module, mesh=mesh)


@contextmanager
def unsharded(module: nn.Module) -> Iterator[None]:
    """Within, every process has all the weights: decoding calls the parts of a model one by one."""
    from torch.distributed.fsdp import FSDPModule

    parts = [each for each in module.modules() if isinstance(each, FSDPModule)]
    blocks = [block for block in _blocks(module) if isinstance(block, FSDPModule)]
    for block in blocks:
        block.set_reshard_after_forward(False, recurse=False)
    for part in parts:
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
        for block in blocks:
            block.set_reshard_after_forward(True, recurse=False)


def is_sharded(tensor: Tensor) -> bool:
    return isinstance(tensor, DTensor)


def full_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor that may be in parts; every process has to ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(tensor: Tensor, model: Tensor) -> Tensor:
    """A tensor that every process has all of, cut as `model` is."""
    if not isinstance(model, DTensor):
        return tensor
    everywhere = DTensor.from_local(tensor, model.device_mesh, [Replicate()], run_check=False)
    return everywhere.redistribute(placements=model.placements)


def _blocks(module: nn.Module) -> list[EncoderBlock | DecoderBlock]:
    return [each for each in module.modules() if isinstance(each, EncoderBlock | DecoderBlock)]
