"""How strongly each word given moves what is said at each place: for models that do not attend.

I_ij = ‖∂ log p(said at i) / ∂ x_j‖          x_j: the embedding of word j; rows divided by their sum

What a model cannot see has no gradient, so that the support of a row is its receptive field.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.insight.forward_passes import Part, Reading, Words
from regard.insight.picture import Numbers, Panel
from regard.insight.seen import as_numpy
from regard.models.embedding import Embedding

TITLE = "Influence (gradients)"
CAPTION = (
    "no attention: a row shows how strongly each word moves what is said there (the size of the "
    "gradient of its log-probability by the word's embedding, as a share of the row)"
)


def influence(reading: Reading) -> tuple[Panel, ...]:
    """A panel for each text that the model is given."""
    parts = {part.given: part for part in reading.parts}  # of several of one text, the last
    with torch.enable_grad(), _embedded(reading.model) as texts:
        said = reading.run()
    by_text = _gradients(said, texts)
    several = len(parts) > 1
    return tuple(
        _panel(part, by_text[given], reading.output, several)
        for given, part in sorted(parts.items(), reverse=True)
    )


@contextmanager
def _embedded(model: nn.Module) -> Iterator[list[Tensor]]:
    """The vectors (1, S, D) of each text that the model looks up within, as leaves of its graph."""
    found: list[Tensor] = []

    def take(_: nn.Module, _given: Any, vectors: Tensor) -> Tensor:
        found.append(vectors.detach().requires_grad_())
        return found[-1]

    hooks = [
        each.register_forward_hook(take) for each in model.modules() if isinstance(each, Embedding)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _gradients(said: Tensor, texts: list[Tensor]) -> list[Numbers]:
    """For each text, the size of the gradient of each thing said by each word: (N, S)."""
    rows: list[list[Numbers]] = [[] for _ in texts]
    for one in said:
        found = torch.autograd.grad(one, texts, retain_graph=True, allow_unused=True)
        for row, gradient, vectors in zip(rows, found, texts, strict=True):
            by_word = torch.zeros_like(vectors) if gradient is None else gradient
            row.append(as_numpy(by_word[0].norm(dim=-1)))
    return [np.stack(row) for row in rows]


def _panel(part: Part, sizes: Numbers, output: str, several: bool) -> Panel:
    """Of what is said at each word, or of the whole text, which then is the one row."""
    total = sizes.sum(1, keepdims=True)
    shares = np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
    at_words = len(shares) == len(part.queries.pieces)
    queries = part.queries if at_words else Words((output or "the whole text",), (0,))
    whose = (" of the source", " of what was said")[part.given] if several else ""
    return Panel(
        f"influence-{part.name}" if several else "influence",
        f"{TITLE}{whose}",
        queries.pieces,
        part.keys.pieces,
        shares[None, None],
        part.predicts if at_words else (),
        part.causal and at_words,
        None,
        queries.numbers,
        part.keys.numbers,
    )
