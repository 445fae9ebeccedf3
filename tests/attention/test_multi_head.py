"""Multi-head attention: projections, heads, the output matrix and cached decoding."""

import torch

from regard.attention.fused import Fused
from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.positions.base import InAttention, Sizes

D, H = 24, 4


def multi_head(bias: bool = True, head_dim: int = D // H) -> MultiHead:
    return MultiHead(Sizes(D, H, head_dim, 64), Fused(), InAttention(), bias)


def test_output_matrix_has_shape_heads_times_head_dim_by_dim() -> None:
    attention = multi_head(head_dim=10)
    assert tuple(attention.w_o.weight.T.shape) == (H * 10, D)
    q, cache = attention.project_qkv(torch.randn(2, 5, D), torch.arange(5))
    assert attention(q, cache, AttentionMask.bidirectional(5, q.device)).shape == (2, 5, D)


def test_heads_computed_together_equal_heads_in_a_loop() -> None:
    attention, x = multi_head(), torch.randn(2, 5, D)
    q, cache = attention.project_qkv(x, torch.arange(5))
    outputs = attention(q, cache, AttentionMask.bidirectional(5, x.device))
    size = D // H
    heads = []
    for h in range(H):
        rows = slice(h * size, (h + 1) * size)
        one_q, one_k, one_v = (
            x @ w.weight[rows].T + w.bias[rows]
            for w in (attention.w_q, attention.w_k, attention.w_v)
        )
        weights = (one_q @ one_k.transpose(1, 2) / size**0.5).softmax(-1)
        heads.append(weights @ one_v)
    assert torch.allclose(outputs, attention.w_o(torch.cat(heads, dim=-1)), atol=1e-5)


def test_fused_projection_equals_separate_projections() -> None:
    for bias in (True, False):
        attention, x = multi_head(bias), torch.randn(2, 5, D)
        q, cache = attention.project_qkv(x, torch.arange(5))
        assert torch.allclose(q, attention.project_queries(x, torch.arange(5)), atol=1e-6)
        separate = attention.project_keys_values(x, torch.arange(5))
        assert torch.allclose(cache.keys, separate.keys, atol=1e-6)
        assert torch.allclose(cache.values, separate.values, atol=1e-6)


def test_cached_decoding_equals_uncached() -> None:
    attention, x = multi_head(), torch.randn(2, 6, D)
    q, cache = attention.project_qkv(x, torch.arange(6))
    uncached = attention(q, cache, AttentionMask.causal(0, 6, x.device))
    past: KVCache | None = None
    for step in range(6):
        mask = AttentionMask.causal(step, 1, x.device)
        q, new = attention.project_qkv(x[:, step : step + 1], mask.queries)
        past = new if past is None else past.append(new)
        assert torch.allclose(attention(q, past, mask)[:, 0], uncached[:, step], atol=1e-5)


def test_number_of_parameters_does_not_depend_on_heads() -> None:
    counts = set()
    for heads in (1, 2, 4, 8):
        attention = MultiHead(Sizes(D, heads, D // heads, 64), Fused(), InAttention(), True)
        counts.add(sum(p.numel() for p in attention.parameters()))
    assert len(counts) == 1
