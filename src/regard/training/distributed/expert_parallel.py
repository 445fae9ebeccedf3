"""Experts spread over processes: each keeps some of them whole, and words travel to their experts.

    words of a process, by expert  ── all to all ──▶  words of all processes, for experts here
    answers, as the words stood    ◀── all to all ──  answers of the experts here

Backward, gradients travel the same ways in the other direction. So an expert meets the words of all
processes: its gradient is their sum as it is, and nobody else's business. A parameter that another
process keeps is on torch's meta device: it has a name, a shape and a place among the optimizer's,
as if there were one process, but no content and no gradient.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.feedforward.moe import Ask, Experts
from regard.training.distributed.world import World


def shard_experts(model: nn.Module, world: World) -> None:
    """Of each mixture every process keeps its run of experts, as many as the others or one more."""
    mixtures = _mixtures(model)
    if not mixtures:
        raise ConfigError(
            "training.expert_parallel: this model has no experts to spread; leave it out, or give "
            "it some: model.feed_forward: {kind: moe}."
        )
    if world.size == 1:
        return
    # Their own group: gradients that are summed meanwhile do not get in the way.
    group = dist.new_group()
    for mixture in mixtures:
        shares = [_share(len(mixture.experts), rank, world.size) for rank in range(world.size)]
        mixture.here = shares[world.rank]
        mixture.journey = AllToAllDispatcher([len(share) for share in shares], world.rank, group)
        for number, expert in enumerate(mixture.experts):
            if number not in mixture.here:
                _forget(expert)


def expert_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of all experts that are spread, by name, wherever they are."""
    return {
        f"{name}.experts.{inner}": parameter
        for name, mixture in module.named_modules()
        if isinstance(mixture, Experts) and mixture.journey is not None
        for inner, parameter in mixture.experts.named_parameters()
    }


class AllToAllDispatcher:
    """There and back again, for the words of one mixture."""

    def __init__(self, shares: Sequence[int], rank: int, group: Any) -> None:
        self.shares = list(shares)  # how many experts each process keeps
        self.rank, self.group = rank, group

    def __call__(self, words: Tensor, given: Tensor, ask: Ask) -> Tensor:
        coming = self._announced(given)  # (processes, experts here)
        leave = [int(each.sum()) for each in torch.split(given, self.shares)]
        arrive = coming.sum(1).tolist()
        # Every process has to be there on the way back, whether or not it has anything to learn.
        present = torch.zeros((), device=words.device, requires_grad=torch.is_grad_enabled())
        arrived = self._travel(words, present, leave, arrive)
        # They stand by the process they came from, and then by expert: now by expert first.
        experts = torch.arange(coming.size(1), device=words.device).repeat(len(coming))
        order = experts.repeat_interleave(coming.flatten()).argsort(stable=True)
        said = ask(arrived[order], coming.sum(0).tolist())
        answers = torch.empty_like(arrived).index_copy(0, order, said.to(words.dtype))
        return self._travel(answers, present, arrive, leave)

    def _travel(self, rows: Tensor, present: Tensor, leave: list[int], arrive: list[int]) -> Tensor:
        exchange: Callable[..., Tensor] = _Exchange.apply
        return exchange(rows, present, leave, arrive, self.group)

    def _announced(self, given: Tensor) -> Tensor:
        """How many words each process will send to each expert here."""
        here, processes = self.shares[self.rank], len(self.shares)
        coming = given.new_empty(processes * here)
        dist.all_to_all_single(coming, given, [here] * processes, self.shares, group=self.group)
        return coming.view(processes, here)


class _Exchange(torch.autograd.Function):
    """Rows go to the processes they are for, in the order of ranks; those of the others come."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, _: Tensor, leave: list[int], arrive: list[int], group: Any
    ) -> Tensor:
        ctx.ways = arrive, leave, group
        return _exchanged(rows, leave, arrive, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _exchanged(gradient, *ctx.ways), None, None, None, None


def _exchanged(rows: Tensor, leave: list[int], arrive: list[int], group: Any) -> Tensor:
    arrived = rows.new_empty(sum(arrive), *rows.shape[1:])
    dist.all_to_all_single(arrived, rows.contiguous(), arrive, leave, group=group)
    return arrived


@contextmanager
def gathered_experts(model: nn.Module) -> Iterator[None]:
    """Within, every process has all experts: decoding is for each to do at its own pace."""
    mixtures = [each for each in _mixtures(model) if each.journey is not None]
    kept = [(each, each.here, each.journey, _places(each.experts)) for each in mixtures]
    for mixture in mixtures:
        _bring(mixture)
    try:
        yield
    finally:
        for mixture, here, journey, places in kept:
            mixture.here, mixture.journey = here, journey
            for module, name, parameter in places:
                setattr(module, name, parameter)


@torch.no_grad()
def _bring(mixture: Experts) -> None:
    """All experts from where they are, those of a process at once."""
    journey = mixture.journey
    assert isinstance(journey, AllToAllDispatcher)
    first = 0
    for rank, count in enumerate(journey.shares):
        places = _places(mixture.experts[first : first + count])
        first += count
        if not places:
            continue
        like = next(mixture.router.parameters())
        numbers = like.new_empty(sum(each.numel() for _, _, each in places))
        if rank == journey.rank:
            torch.cat([each.flatten() for _, _, each in places], out=numbers)
        source = dist.get_global_rank(journey.group, rank)
        dist.broadcast(numbers, source, group=journey.group)
        pieces = torch.split(numbers, [each.numel() for _, _, each in places])
        for (module, name, parameter), piece in zip(places, pieces, strict=True):
            setattr(module, name, nn.Parameter(piece.view(parameter.shape), requires_grad=False))
    mixture.here, mixture.journey = range(len(mixture.experts)), None


def gather_to_main(tensors: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """What any process has, for the leading one; for the others, what they have themselves."""
    own = {name: tensor for name, tensor in tensors.items() if not tensor.is_meta}
    known = world.broadcast(set(own))
    missing = {name: each for name, each in own.items() if name not in known}
    announced = world.all_gather([(n, each.shape, each.dtype) for n, each in missing.items()])
    if not world.is_main:
        for tensor in missing.values():
            dist.send(tensor.cpu().contiguous(), dst=0, group=world.control)
        return own
    for rank, those in enumerate(announced):
        for name, shape, dtype in those:
            own[name] = torch.empty(shape, dtype=dtype)
            dist.recv(own[name], src=rank, group=world.control)
    return own


def _mixtures(model: nn.Module) -> list[Experts]:
    return [each for each in model.modules() if isinstance(each, Experts)]


def _share(count: int, rank: int, size: int) -> range:
    return range(count * rank // size, count * (rank + 1) // size)


def _places(module: nn.Module) -> list[tuple[nn.Module, str, nn.Parameter]]:
    """All parameters, each with the module that has it and its name there."""
    return [
        (each, name, parameter)
        for each in module.modules()
        for name, parameter in each.named_parameters(recurse=False)
    ]


def _forget(expert: nn.Module) -> None:
    for module, name, parameter in _places(expert):
        nowhere = torch.empty_like(parameter, device="meta")
        setattr(module, name, nn.Parameter(nowhere, parameter.requires_grad))
