"""Observe, do not switch: record what happens inside any model, by name, while it runs.

    with regard.watch(model) as seen:
        model(source, padding, target)
    seen.weights("encoder.blocks.0.attention")                  # (B, H, T, S)
    seen.last("encoder.blocks.0.feed_forward", "activations")   # (B, T, ffn_dim)
    seen.last("encoder.blocks.0", "residual")                   # (B, T, D), after this block

Models carry no flags for this. While somebody watches, each attention answers by way of its weights
(`explain`), which are recorded; nothing is changed in the model and nothing is paid afterwards.
Where a part calls those inside it once a word (`PerTokenModule`), its words are one record.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.multi_head import MultiHead
from regard.errors import ConfigError
from regard.insight.seen import Seen
from regard.layers.base import PerTokenModule, ResidualModule
from regard.layers.feedforward.dense import Dense
from regard.layers.feedforward.gated import Gated
from regard.layers.feedforward.moe import Experts

POINTS = {
    "weights": "who looked at whom, (B, H, T, S)",
    "queries": "(B, H, T, K)",
    "keys": "(B, H, S, K)",
    "values": "(B, H, S, K)",
    "found": "what each head found, (B, H, T, K)",
    "output": "the heads joined, times W_O: (B, T, D)",
    "residual": "the stream after the embedding and after each block, (B, T, D)",
    "activations": "hidden layer of a feed-forward network (B, T, ffn_dim) or expert (N, ffn_dim)",
    "experts": "how much of each word's answer is each expert's, (B, T, E)",
    "scores": "before the softmax, (B, H, T, S); recorded on request only",
    "visible": "who may look at whom, (B, 1, T, S), True where one may; on request only",
}
USUAL = frozenset(POINTS) - {"scores", "visible"}


@contextmanager
def watch(model: nn.Module, points: Collection[str] = USUAL) -> Iterator[Seen]:
    """Record these points of a model's parts for as long as the context lasts."""
    unknown = sorted(set(points) - set(POINTS))
    if unknown:
        raise ConfigError(f"there is no point '{unknown[0]}'; there are: {', '.join(POINTS)}.")
    seen = Seen()
    hooks = [
        hook
        for name, module in model.named_modules()
        for hook in _hooks(module, name, points, seen)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _hooks(module: nn.Module, name: str, points: Collection[str], seen: Seen) -> Iterator[Any]:
    """The hooks that one part of a model needs."""
    if isinstance(module, PerTokenModule):
        began: list[dict[tuple[str, str], int]] = []
        yield module.register_forward_pre_hook(lambda *_: began.append(seen.so_far()))
        yield module.register_forward_hook(lambda *_: seen.join(name, began.pop()))
    if isinstance(module, Attention):
        # An attention and what projects for it are one thing to whoever watches.
        yield module.register_forward_hook(
            _explained(name.removesuffix(".attention"), points, seen)
        )
    elif isinstance(module, MultiHead) and "output" in points:
        yield module.register_forward_hook(_recorded(name, "output", seen))
    elif isinstance(module, ResidualModule) and "residual" in points:
        yield module.register_forward_hook(_recorded(name, "residual", seen))
    elif isinstance(module, (Dense, Gated)) and "activations" in points:
        yield module.narrow.register_forward_pre_hook(_entering(name, "activations", seen))
    elif isinstance(module, Experts) and "experts" in points:
        yield module.register_forward_pre_hook(
            lambda _, inputs: seen.record(name, "experts", module.gates(*inputs))
        )


def _explained(name: str, points: Collection[str], seen: Seen) -> Callable[..., Tensor]:
    def answer_by_weights(module: Attention, inputs: tuple[Any, ...], _: Tensor) -> Tensor:
        q, k, v, mask, position = inputs
        found, weights = module.attend_with_weights(*inputs)
        recorded = {"weights": weights, "queries": q, "keys": k, "values": v, "found": found}
        if "scores" in points:
            recorded["scores"] = module.scores(q, k, mask, position)
        if "visible" in points:
            recorded["visible"] = _everywhere(module.dense_mask(mask), weights)
        for point, tensor in recorded.items():
            if point in points:
                seen.record(name, point, tensor)
        return found

    return answer_by_weights


def _everywhere(visible: Tensor | None, weights: Tensor) -> Tensor:
    """Who may look at whom, told of every pair: (B, 1, T, S)."""
    rows, _, queries, keys = weights.shape
    told = weights.new_ones((), dtype=torch.bool) if visible is None else visible
    return told.expand(rows, 1, queries, keys)


def _recorded(name: str, point: str, seen: Seen) -> Callable[..., None]:
    def record(_: nn.Module, _inputs: Any, output: Any) -> None:
        seen.record(name, point, output[0] if isinstance(output, tuple) else output)

    return record


def _entering(name: str, point: str, seen: Seen) -> Callable[..., None]:
    return lambda _, inputs: seen.record(name, point, inputs[0])
