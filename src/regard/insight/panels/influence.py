"""Panels of gradient norms, for models without attention: which input tokens move which output.

I_ij = ‖∂ log p(output i) / ∂ x_j‖      x_j: embedding of input token j; rows divided by their sums

An input that a model cannot see has no gradient, so the support of a row is its receptive field.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.insight.forward_passes import AttentionSite, ForwardPass, Tokens
from regard.insight.packing import Floats
from regard.insight.panels.base import Panel
from regard.insight.seen import as_numpy
from regard.models.embedding import Embedding

TITLE = "Influence (gradients)"
CAPTION = (
    "no attention: a row shows how strongly each input token moves the output at that position "
    "(norm of the gradient of its log-probability with respect to the token's embedding, divided "
    "by the row's sum)"
)


def influence_panels(forward_pass: ForwardPass) -> tuple[Panel, ...]:
    """Return a panel for each input text of the model."""
    # Of several sites with the same input, the last one.
    sites = {site.input_index: site for site in forward_pass.sites}
    with torch.enable_grad(), _embedding_leaves(forward_pass.model) as embeddings:
        log_probs = forward_pass.run()
    norms = _gradient_norms(log_probs, embeddings)
    has_several = len(sites) > 1
    return tuple(
        _panel(site, norms[index], forward_pass.output, has_several)
        for index, site in sorted(sites.items(), reverse=True)
    )


@contextmanager
def _embedding_leaves(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the embeddings (1, S, D) of each text embedded inside, as leaves of the graph."""
    leaves: list[Tensor] = []

    def detach(_: nn.Module, _inputs: Any, vectors: Tensor) -> Tensor:
        leaves.append(vectors.detach().requires_grad_())
        return leaves[-1]

    hooks = [
        module.register_forward_hook(detach)
        for module in model.modules()
        if isinstance(module, Embedding)
    ]
    try:
        yield leaves
    finally:
        for hook in hooks:
            hook.remove()


def _gradient_norms(log_probs: Tensor, embeddings: list[Tensor]) -> list[Floats]:
    """Return for each text the gradient norms of each output by each token: (N, S)."""
    rows: list[list[Floats]] = [[] for _ in embeddings]
    for log_prob in log_probs:
        gradients = torch.autograd.grad(log_prob, embeddings, retain_graph=True, allow_unused=True)
        for row, gradient, vectors in zip(rows, gradients, embeddings, strict=True):
            by_token = torch.zeros_like(vectors) if gradient is None else gradient
            row.append(as_numpy(by_token[0].norm(dim=-1)))
    return [np.stack(row) for row in rows]


def _panel(site: AttentionSite, norms: Floats, output: str, has_several: bool) -> Panel:
    """Return a panel with a row for each output position, or one row for the whole text."""
    total = norms.sum(1, keepdims=True)
    shares = np.divide(norms, total, out=np.zeros_like(norms), where=total > 0)
    is_per_token = len(shares) == len(site.queries.texts)
    queries = site.queries if is_per_token else Tokens((output or "the whole text",), (0,))
    suffix = (" of the source", " of the output")[site.input_index] if has_several else ""
    return Panel(
        f"influence-{site.name}" if has_several else "influence",
        f"{TITLE}{suffix}",
        queries.texts,
        site.keys.texts,
        shares[None, None],
        site.predicts if is_per_token else (),
        site.causal and is_per_token,
        None,
        queries.words,
        site.keys.words,
    )
