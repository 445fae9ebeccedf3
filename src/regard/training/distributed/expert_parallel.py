"""Expert parallelism: each process keeps some experts whole; tokens are sent to their experts.

    tokens of a process, by expert   ── all-to-all ──▶  tokens of all processes for local experts
    outputs, in the tokens' order    ◀── all-to-all ──  outputs of the local experts

In the backward pass, gradients are exchanged in the other direction. An expert gets the tokens of
all processes, so its gradient is a sum already and is not exchanged. A parameter that another
process keeps is on torch's meta device: it has a name, a shape and an index in the optimizer, as in
a single process, but no values and no gradient.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.feedforward.moe import MixtureOfExperts, RunExperts
from regard.training.distributed.world import World


def shard_experts(model: nn.Module, world: World) -> None:
    """Keep a range of experts of each mixture in every process; ranges differ by one at most."""
    mixtures = _mixtures(model)
    if not mixtures:
        raise ConfigError(
            "training.expert_parallel: this model has no experts; leave it out, or set "
            "model.feed_forward: {kind: moe}."
        )
    if world.size == 1:
        return
    # A group of its own: gradients are summed at the same time.
    group = dist.new_group()
    for mixture in mixtures:
        ranges = [_local(len(mixture.experts), rank, world.size) for rank in range(world.size)]
        mixture.local_experts = ranges[world.rank]
        mixture.dispatcher = AllToAllDispatcher([len(r) for r in ranges], world.rank, group)
        for number, expert in enumerate(mixture.experts):
            if number not in mixture.local_experts:
                _to_meta(expert)


def expert_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of all experts in expert parallelism, of whatever process, by name."""
    return {
        f"{name}.experts.{inner}": parameter
        for name, mixture in module.named_modules()
        if isinstance(mixture, MixtureOfExperts) and mixture.dispatcher is not None
        for inner, parameter in mixture.experts.named_parameters()
    }


class AllToAllDispatcher:
    """Sends the tokens of one mixture to the processes of their experts, and outputs back."""

    def __init__(self, num_experts: Sequence[int], rank: int, group: Any) -> None:
        self.num_experts = list(num_experts)  # of each process
        self.rank, self.group = rank, group

    def __call__(self, tokens: Tensor, counts: Tensor, compute: RunExperts) -> Tensor:
        """Compute tokens (N, D), sorted by expert, `counts` of them for each expert."""
        arriving = self._exchange_counts(counts)  # (processes, local experts)
        sent = [int(of_process.sum()) for of_process in torch.split(counts, self.num_experts)]
        received = arriving.sum(1).tolist()
        # Every process must take part in the backward pass, even one with nothing to train.
        anchor = torch.zeros((), device=tokens.device, requires_grad=torch.is_grad_enabled())
        inputs = self._exchange(tokens, anchor, sent, received)
        # They are sorted by process and then by expert: sort them by expert.
        experts = torch.arange(arriving.size(1), device=tokens.device).repeat(len(arriving))
        order = experts.repeat_interleave(arriving.flatten()).argsort(stable=True)
        by_expert = compute(inputs[order], arriving.sum(0).tolist())
        outputs = torch.empty_like(inputs).index_copy(0, order, by_expert.to(tokens.dtype))
        return self._exchange(outputs, anchor, received, sent)

    def _exchange(
        self, rows: Tensor, anchor: Tensor, sent: list[int], received: list[int]
    ) -> Tensor:
        exchange: Callable[..., Tensor] = _Exchange.apply
        return exchange(rows, anchor, sent, received, self.group)

    def _exchange_counts(self, counts: Tensor) -> Tensor:
        """Return how many tokens each process will send to each local expert."""
        local, processes = self.num_experts[self.rank], len(self.num_experts)
        arriving = counts.new_empty(processes * local)
        dist.all_to_all_single(
            arriving, counts, [local] * processes, self.num_experts, group=self.group
        )
        return arriving.view(processes, local)


class _Exchange(torch.autograd.Function):
    """An all-to-all of rows, in the order of ranks, with its backward pass."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, _: Tensor, sent: list[int], received: list[int], group: Any
    ) -> Tensor:
        ctx.backward_arguments = received, sent, group
        return _all_to_all(rows, sent, received, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _all_to_all(gradient, *ctx.backward_arguments), None, None, None, None


def _all_to_all(rows: Tensor, sent: list[int], received: list[int], group: Any) -> Tensor:
    output = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(output, rows.contiguous(), received, sent, group=group)
    return output


@contextmanager
def gathered_experts(model: nn.Module) -> Iterator[None]:
    """Within, every process has all experts: in decoding, each runs at its own pace."""
    mixtures = [mixture for mixture in _mixtures(model) if mixture.dispatcher is not None]
    before = [(m, m.local_experts, m.dispatcher, _parameters(m.experts)) for m in mixtures]
    for mixture in mixtures:
        _gather(mixture)
    try:
        yield
    finally:
        for mixture, local, dispatcher, parameters in before:
            mixture.local_experts, mixture.dispatcher = local, dispatcher
            for module, name, parameter in parameters:
                setattr(module, name, parameter)


@torch.no_grad()
def _gather(mixture: MixtureOfExperts) -> None:
    """Broadcast the experts of every process to all, those of a process in one tensor."""
    dispatcher = mixture.dispatcher
    assert isinstance(dispatcher, AllToAllDispatcher)
    first = 0
    for rank, count in enumerate(dispatcher.num_experts):
        parameters = _parameters(mixture.experts[first : first + count])
        first += count
        if not parameters:
            continue
        like = next(mixture.router.parameters())
        values = like.new_empty(sum(parameter.numel() for _, _, parameter in parameters))
        if rank == dispatcher.rank:
            torch.cat([parameter.flatten() for _, _, parameter in parameters], out=values)
        source = dist.get_global_rank(dispatcher.group, rank)
        dist.broadcast(values, source, group=dispatcher.group)
        flat = torch.split(values, [parameter.numel() for _, _, parameter in parameters])
        for (module, name, parameter), value in zip(parameters, flat, strict=True):
            setattr(module, name, nn.Parameter(value.view(parameter.shape), requires_grad=False))
    mixture.local_experts, mixture.dispatcher = range(len(mixture.experts)), None


def gather_to_main(tensors: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """Return the tensors of all processes in the main one; in the others, their own."""
    own = {name: tensor for name, tensor in tensors.items() if not tensor.is_meta}
    in_main = world.broadcast(set(own))
    missing = {name: tensor for name, tensor in own.items() if name not in in_main}
    announced = world.all_gather([(n, tensor.shape, tensor.dtype) for n, tensor in missing.items()])
    if not world.is_main:
        for tensor in missing.values():
            dist.send(tensor.cpu().contiguous(), dst=0, group=world.control)
        return own
    for rank, incoming in enumerate(announced):
        for name, shape, dtype in incoming:
            own[name] = torch.empty(shape, dtype=dtype)
            dist.recv(own[name], src=rank, group=world.control)
    return own


def _mixtures(model: nn.Module) -> list[MixtureOfExperts]:
    return [module for module in model.modules() if isinstance(module, MixtureOfExperts)]


def _local(count: int, rank: int, size: int) -> range:
    """Return the experts of a process."""
    return range(count * rank // size, count * (rank + 1) // size)


def _parameters(module: nn.Module) -> list[tuple[nn.Module, str, nn.Parameter]]:
    """Return all parameters, each with its module and its name there."""
    return [
        (submodule, name, parameter)
        for submodule in module.modules()
        for name, parameter in submodule.named_parameters(recurse=False)
    ]


def _to_meta(expert: nn.Module) -> None:
    """Replace an expert's parameters by ones without values."""
    for module, name, parameter in _parameters(expert):
        empty = torch.empty_like(parameter, device="meta")
        setattr(module, name, nn.Parameter(empty, parameter.requires_grad))
