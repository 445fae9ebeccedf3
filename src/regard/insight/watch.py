"""Record activations of any model while it runs, by the names of its modules.

    with regard.watch(model) as seen:
        model(source, source_mask, target)
    seen.weights("encoder.blocks.0.attention")                  # (B, H, T, S)
    seen.last("encoder.blocks.0.feed_forward", "activations")   # (B, T, ffn_dim)
    seen.last("encoder.blocks.0", "residual")                   # (B, T, D), after this block

Models need no flags for this. Forward hooks replace each attention's kernel by one that returns its
weights; they are removed at the end of the context, and nothing in the model changes. Calls of
the modules inside a `PerTokenModule`, one a token, are joined to one record.
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
from regard.layers.feedforward.moe import MixtureOfExperts

POINTS = {
    "weights": "attention weights, (B, H, T, S)",
    "queries": "(B, H, T, K)",
    "keys": "(B, H, S, K)",
    "values": "(B, H, S, K)",
    "head_outputs": "weighted sums of the values of each head, (B, H, T, K)",
    "output": "heads concatenated, times W_O: (B, T, D)",
    "residual": "residual stream after the embedding and after each block, (B, T, D)",
    "activations": "hidden units of a feed-forward network (B, T, ffn_dim) or expert (N, ffn_dim)",
    "experts": "gate weights of a mixture of experts, (B, T, E)",
    "scores": "attention scores before the softmax, (B, H, T, S); recorded on request only",
    "may_attend": "attention mask, (B, 1, T, S), True where allowed; recorded on request only",
}
USUAL = frozenset(POINTS) - {"scores", "may_attend"}


@contextmanager
def watch(model: nn.Module, points: Collection[str] = USUAL) -> Iterator[Seen]:
    """Record activations of a model for as long as the context lasts.

    Args:
        model: any model; its modules are recorded by their names.
        points: which activations, names of `POINTS`; by default all but scores and masks.

    Yields:
        the records, filled in whenever the model runs.

    Raises:
        ConfigError: where a point does not exist.

    Example:
        >>> import regard, torch
        >>> model = regard.load_language_model("runs/proverbs").model
        >>> with regard.watch(model) as seen:
        ...     logits = model(torch.tensor([[4, 5, 6]]))
        >>> tuple(seen.weights("decoder.blocks.0.attention").shape)
        (1, 2, 3, 3)
    """
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
    """Register the hooks of one module."""
    if isinstance(module, PerTokenModule):
        starts: list[dict[tuple[str, str], int]] = []
        yield module.register_forward_pre_hook(lambda *_: starts.append(seen.call_counts()))
        yield module.register_forward_hook(lambda *_: seen.join(name, starts.pop()))
    if isinstance(module, Attention):
        # The attention kernel is recorded under the name of the projections around it.
        yield module.register_forward_hook(
            _with_weights(name.removesuffix(".attention"), points, seen)
        )
    elif isinstance(module, MultiHead) and "output" in points:
        yield module.register_forward_hook(_record_output(name, "output", seen))
    elif isinstance(module, ResidualModule) and "residual" in points:
        yield module.register_forward_hook(_record_output(name, "residual", seen))
    elif isinstance(module, (Dense, Gated)) and "activations" in points:
        yield module.down_proj.register_forward_pre_hook(_record_input(name, "activations", seen))
    elif isinstance(module, MixtureOfExperts) and "experts" in points:
        yield module.register_forward_pre_hook(
            lambda _, inputs: seen.record(name, "experts", module.gates(*inputs))
        )


def _with_weights(name: str, points: Collection[str], seen: Seen) -> Callable[..., Tensor]:
    """Return a hook that recomputes an attention's output by its weights, and records them."""

    def attend(module: Attention, inputs: tuple[Any, ...], _: Tensor) -> Tensor:
        q, k, v, mask, position = inputs
        output, weights = module.attend_with_weights(*inputs)
        tensors = {"weights": weights, "queries": q, "keys": k, "values": v, "head_outputs": output}
        if "scores" in points:
            tensors["scores"] = module.scores(q, k, mask, position)
        if "may_attend" in points:
            tensors["may_attend"] = _expanded(module.dense_mask(mask), weights)
        for point, tensor in tensors.items():
            if point in points:
                seen.record(name, point, tensor)
        return output

    return attend


def _expanded(may_attend: Tensor | None, weights: Tensor) -> Tensor:
    """Return the attention mask for every pair: (B, 1, T, S); no mask allows all."""
    rows, _, queries, keys = weights.shape
    mask = weights.new_ones((), dtype=torch.bool) if may_attend is None else may_attend
    return mask.expand(rows, 1, queries, keys)


def _record_output(name: str, point: str, seen: Seen) -> Callable[..., None]:
    def record(_: nn.Module, _inputs: Any, output: Any) -> None:
        seen.record(name, point, output[0] if isinstance(output, tuple) else output)

    return record


def _record_input(name: str, point: str, seen: Seen) -> Callable[..., None]:
    return lambda _, inputs: seen.record(name, point, inputs[0])
