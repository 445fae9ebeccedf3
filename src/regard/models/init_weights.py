"""Initial parameters of a Transformer.

Matrices are Xavier-uniform, biases zero. Embeddings are drawn so that, after the √D scaling, each
component has variance 1, and a tied output layer starts with logits of variance about 1. With pre-
norm, the output matrix of each sublayer is scaled by 1/√(2·layers), as in GPT-2, so that the
residual sum over all layers starts with the variance of its first term.

Keys start like queries: equal in cross-attention and half correlated in self-attention, so that
from the first step a token attends to similar tokens and positions (after Trockman and Kolter
2023).
"""

from typing import TypeVar

import torch
from torch import nn

from regard.attention.multi_head import MultiHead
from regard.models.prune import retain_heads
from regard.models.transformer import TransformerSpec

# Correlation of the initial W_K with W_Q, by the name of the attention module.
KEY_QUERY_CORRELATION = {"cross": 1.0, "attention": 0.5}

M = TypeVar("M", bound=nn.Module)


def initialized(model: M, spec: TransformerSpec) -> M:
    """Initialize the model, then remove the heads that `spec` does not retain."""
    if not next(model.parameters()).is_meta:
        _initialize_transformer(model, spec)
    retain_heads(model, spec.retained_heads)
    return model


def _initialize_transformer(model: nn.Module, spec: TransformerSpec) -> None:
    initialize(model, spec.dim**-0.5 if spec.scale_embedding else 0.02)
    for name, module in model.named_modules():
        if isinstance(module, MultiHead):
            _correlate_keys(module, KEY_QUERY_CORRELATION.get(name.rpartition(".")[2], 0.0))
    if spec.norm_first:
        for name, parameter in model.named_parameters():
            if name.endswith(("w_o.weight", "down_proj.weight")):
                parameter.data.mul_((2 * spec.layers) ** -0.5)


def initialize(model: nn.Module, embedding_std: float) -> None:
    """Draw all matrices (Xavier-uniform) and embeddings (normal), and set biases to zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    # After the matrices: a tied output layer is initialized as an embedding.
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=embedding_std)


@torch.no_grad()
def _correlate_keys(attention: MultiHead, correlation: float) -> None:
    """Mix W_Q into W_K; a key head shared by several query heads takes the first of them."""
    by_head = (attention.kv_heads, -1, attention.head_dim, attention.w_q.in_features)
    queries = attention.w_q.weight.view(by_head)[:, 0].flatten(0, 1)
    keys = attention.w_k.weight
    keys.copy_(correlation * queries + (1 - correlation**2) ** 0.5 * keys)
