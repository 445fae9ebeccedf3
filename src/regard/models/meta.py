"""Build models on the meta device: names, shapes and structure, without memory for parameters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

DRAWS = {torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.bernoulli_}
SCALINGS = {torch.Tensor.__mul__, torch.Tensor.__truediv__, torch.Tensor.mul, torch.Tensor.div}


class _WithoutCompiler(TorchFunctionMode):
    """Skip initial values: their draws, and their scaling by a number.

    On the meta device torch computes these in Python and imports its compiler for it, which takes
    longer than loading a small model: 1.5 s. Whatever else a kind computes is left to torch.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in DRAWS or getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        if func in SCALINGS and args[0].is_meta and isinstance(args[1], (int, float)):
            return args[0]
        return func(*args, **kwargs) if func is not torch.randn else torch.empty(*args, **kwargs)


@contextmanager
def on_meta() -> Iterator[None]:
    """Create tensors on the meta device and draw no initial values."""
    with torch.device("meta"), _WithoutCompiler():
        yield
