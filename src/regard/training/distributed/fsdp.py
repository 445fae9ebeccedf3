"""Fully sharded data parallelism: each process keeps a shard of every weight.

FSDP2, torch's `fully_shard`: a block's weights are gathered from all processes just before it
computes and freed just after; gradients, EMA and optimizer state exist as shards only. A shard is a
DTensor: some rows of a tensor, and where the others are.
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
    """Shard a module's weights: those of each block together, and those outside of blocks."""
    # Imported here: it takes most of a second, and few runs need it.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (size,))
    for block in _blocks(module):
        if isinstance(block, DecoderBlock) and block.cross is not None:
            # Its keys and values are computed before its block runs; it stays until backward.
            fully_shard(block.cross, mesh=mesh, reshard_after_forward=False)
            for method in ("project_keys_values", "project_queries"):
                register_fsdp_forward_method(block.cross, method)
        fully_shard(block, mesh=mesh)
    # It warns that views must not be changed in place. Blocks return views; nothing changes them.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
    fully_shard(module, mesh=mesh)


@contextmanager
def unsharded(module: nn.Module) -> Iterator[None]:
    """Within, every process has all weights: decoding calls the layers of a model one by one."""
    from torch.distributed.fsdp import FSDPModule

    sharded = [m for m in module.modules() if isinstance(m, FSDPModule)]
    blocks = [block for block in _blocks(module) if isinstance(block, FSDPModule)]
    for block in blocks:
        block.set_reshard_after_forward(False, recurse=False)
    for submodule in sharded:
        submodule.unshard()
    try:
        yield
    finally:
        for submodule in sharded:
            submodule.reshard()
        for block in blocks:
            block.set_reshard_after_forward(True, recurse=False)


def is_sharded(tensor: Tensor) -> bool:
    """Return whether this process has only a shard of the tensor."""
    return isinstance(tensor, DTensor)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor of a shard; all processes must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(tensor: Tensor, reference: Tensor) -> Tensor:
    """Return this process's shard of a full tensor, sharded as `reference` is."""
    if not isinstance(reference, DTensor):
        return tensor
    replicated = DTensor.from_local(tensor, reference.device_mesh, [Replicate()], run_check=False)
    return replicated.redistribute(placements=reference.placements)


def _blocks(module: nn.Module) -> list[EncoderBlock | DecoderBlock]:
    return [m for m in module.modules() if isinstance(m, EncoderBlock | DecoderBlock)]
