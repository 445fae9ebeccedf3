"""Sliding-window attention: parity with local-attention and Hugging Face's Longformer."""

import math

import torch
from local_attention import LocalAttention
from torch import Tensor
from transformers import LongformerConfig
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from regard.attention.base import AttentionSpec
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention, Sizes

LENGTH, WINDOW, HEADS, SIZE = 192, 16, 2, 8
CPU = torch.device("cpu")


def ours(inputs: list[Tensor], causal: bool) -> Tensor:
    spec = AttentionSpec.model_validate({"kind": "window", "size": WINDOW})
    mask = (
        AttentionMask.causal(0, LENGTH, CPU) if causal else AttentionMask.bidirectional(LENGTH, CPU)
    )
    attention = spec.build(Sizes(HEADS * SIZE, HEADS, SIZE, LENGTH))
    output: Tensor = attention(*inputs, mask, InAttention())
    return output


def random_inputs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (2, HEADS, LENGTH, SIZE)
    return [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]


def assert_same(first: Tensor, second: Tensor, inputs: list[Tensor]) -> None:
    """Outputs and gradients."""
    assert torch.allclose(first, second, atol=1e-5)
    cotangent = torch.linspace(-1, 1, first.numel()).view_as(first)
    for mine, theirs in zip(
        torch.autograd.grad((first * cotangent).sum(), inputs),
        torch.autograd.grad((second * cotangent).sum(), inputs),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, atol=1e-5)


def test_local_attention() -> None:
    for causal in (True, False):
        ahead = 0 if causal else 1
        theirs = LocalAttention(
            WINDOW, causal=causal, exact_windowsize=True, look_backward=1, look_forward=ahead
        )
        inputs = random_inputs()
        assert_same(ours(inputs, causal), theirs(*inputs), inputs)


def test_longformer() -> None:
    config = LongformerConfig(
        hidden_size=HEADS * SIZE, num_attention_heads=HEADS, attention_window=[2 * WINDOW]
    )
    layer = LongformerSelfAttention(config, layer_id=0)
    inputs = random_inputs()
    q, k, v = (x.transpose(1, 2) for x in inputs)
    weights = layer._sliding_chunks_query_key_matmul(q / math.sqrt(SIZE), k, WINDOW).softmax(-1)
    theirs = layer._sliding_chunks_matmul_attn_probs_value(weights, v, WINDOW)
    assert_same(ours(inputs, causal=False), theirs.transpose(1, 2), inputs)
