"""First weights: what lets a fresh Transformer train at once.

Matrices are Xavier-uniform, biases zero. Embeddings are drawn so that, after the √D scaling, each
component has variance 1 and a tied output layer starts with logits of variance about 1. With norms
first, what each sublayer adds is shrunk by √(2·layers), as in GPT-2, so that the sum over the depth
starts with the variance of its first term.

Keys begin like queries, wholly where a decoder looks across and half-way in self-attention, so that
like looks at like, in meaning and in place, from the first step (after Trockman and Kolter 2023).
"""

import torch
from torch import nn

from regard.attention.multi_head import MultiHead
from regard.models.transformer import TransformerSpec

ALIKE = {"cross": 1.0, "attention": 0.5}  # how like their queries keys are, by an attention's name


def initialise(model: nn.Module, spec: TransformerSpec) -> None:
    draw(model, spec.dim**-0.5 if spec.scale_embedding else 0.02)
    for name, module in model.named_modules():
        if isinstance(module, MultiHead):
            _begin_alike(module, ALIKE.get(name.rpartition(".")[2], 0.0))
    if spec.norm_first:
        for name, parameter in model.named_parameters():
            if name.endswith(("w_o.weight", "narrow.weight")):
                parameter.data.mul_((2 * spec.layers) ** -0.5)


def draw(model: nn.Module, deviation: float) -> None:
    """Matrices and biases, and embeddings of this standard deviation."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    # After the matrices: a tied output layer is an embedding first.
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=deviation)


@torch.no_grad()
def _begin_alike(attention: MultiHead, share: float) -> None:
    """Where several heads ask the same keys, these are like the first one's queries."""
    by_head = (attention.kv_heads, -1, attention.head_dim, attention.w_q.in_features)
    queries = attention.w_q.weight.view(by_head)[:, 0].flatten(0, 1)
    keys = attention.w_k.weight
    keys.copy_(share * queries + (1 - share**2) ** 0.5 * keys)
