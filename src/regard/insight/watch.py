"""Observe, do not switch: record what happens inside any model, by name, while it runs.

    with regard.watch(model) as seen:
        model(source, padding, target)
    seen.weights("encoder.blocks.0.attention")      # (B, H, T, S)

Models carry no flags for this. While somebody watches, each attention answers by way of its weights
(`explain`), which are recorded; nothing is changed in the model and nothing is paid afterwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from regard.attention.kind import Attention
from regard.errors import RegardError

POINTS = ("weights", "queries", "keys", "values")


class Seen:
    """What was recorded, by the name of the module and the point in it."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], list[Tensor]] = {}

    def names(self) -> list[str]:
        """The attentions that ran, in the order in which they first did."""
        return list(dict.fromkeys(name for name, _ in self._records))

    def calls(self, name: str, point: str = "weights") -> list[Tensor]:
        """One tensor for each time the module ran while watched."""
        try:
            return self._records[name, point]
        except KeyError:
            raise RegardError(
                f"nothing was seen of '{name}' at '{point}'; seen: {', '.join(self.names())}."
            ) from None

    def weights(self, name: str) -> Tensor:
        """Attention weights (B, H, T, S) of the last time the module ran."""
        return self.calls(name)[-1]

    def stack(self, blocks: str, attention: str) -> npt.NDArray[np.float32]:
        """The first row's weights in every layer of a stack: (layers, H, T, S).

        Where layers have fewer heads than others, those that are not there look at nothing.
        """
        names = [name for name in self.names() if _is_in(name, blocks, attention)]
        layers = [self.weights(name)[0].detach().float().cpu().numpy() for name in names]
        most = max(map(len, layers))
        missing = [[(0, most - len(layer)), (0, 0), (0, 0)] for layer in layers]
        return np.stack([np.pad(*each) for each in zip(layers, missing, strict=True)])

    def record(self, name: str, point: str, tensor: Tensor) -> None:
        self._records.setdefault((name, point), []).append(tensor)


def _is_in(name: str, blocks: str, attention: str) -> bool:
    """Is this the attention of that name in some block of that stack?"""
    *stack, _, last = name.split(".")
    return ".".join(stack) == blocks and last == attention


@contextmanager
def watch(model: nn.Module) -> Iterator[Seen]:
    """Record every attention of the model for as long as the context lasts."""
    seen = Seen()
    hooks = [
        module.register_forward_hook(_recorder(seen, name.removesuffix(".attention")))
        for name, module in model.named_modules()
        if isinstance(module, Attention)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _recorder(seen: Seen, name: str) -> Any:
    def answer_by_weights(module: Attention, inputs: tuple[Any, ...], _: Tensor) -> Tensor:
        output, weights = module.explain(*inputs)
        recorded = (weights, *inputs[:3])
        for point, tensor in zip(POINTS, recorded, strict=True):
            seen.record(name, point, tensor)
        return output

    return answer_by_weights
