"""Many heads: one reshape, one output matrix, self- and cross-attention."""

import torch

from regard.attention.fused import Fused
from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.positions.base import InAttention, Sizes

D, H = 24, 4


def multihead(bias: bool = True, head_dim: int = D // H) -> MultiHead:
    return MultiHead(Sizes(D, H, head_dim, 64), Fused(), InAttention(), bias)


def test_the_output_matrix_is_heads_times_key_size_by_d() -> None:
    wide = multihead(head_dim=10)
    assert tuple(wide.w_o.weight.T.shape) == (H * 10, D)
    q, memory = wide.project_qkv(torch.randn(2, 5, D), torch.arange(5))
    assert wide(q, memory, AttentionMask.bidirectional(5, q.device)).shape == (2, 5, D)


def test_heads_as_one_reshape_equal_heads_in_a_loop() -> None:
    attention, x = multihead(), torch.randn(2, 5, D)
    q, memory = attention.project_qkv(x, torch.arange(5))
    together = attention(q, memory, AttentionMask.bidirectional(5, x.device))
    size = D // H
    heads = []
    for h in range(H):
        part = slice(h * size, (h + 1) * size)
        one_q, one_k, one_v = (
            x @ w.weight[part].T + w.bias[part]
            for w in (attention.w_q, attention.w_k, attention.w_v)
        )
        weights = (one_q @ one_k.transpose(1, 2) / size**0.5).softmax(-1)
        heads.append(weights @ one_v)
    assert torch.allclose(together, attention.w_o(torch.cat(heads, dim=-1)), atol=1e-5)


def test_projecting_together_equals_projecting_apart() -> None:
    for bias in (True, False):
        attention, x = multihead(bias), torch.randn(2, 5, D)
        q, memory = attention.project_qkv(x, torch.arange(5))
        assert torch.allclose(q, attention.project_queries(x, torch.arange(5)), atol=1e-6)
        remembered = attention.project_keys_values(x, torch.arange(5))
        assert torch.allclose(memory.keys, remembered.keys, atol=1e-6)
        assert torch.allclose(memory.values, remembered.values, atol=1e-6)


def test_one_word_at_a_time_equals_all_at_once() -> None:
    attention, x = multihead(), torch.randn(2, 6, D)
    q, memory = attention.project_qkv(x, torch.arange(6))
    at_once = attention(q, memory, AttentionMask.causal(0, 6, x.device))
    past: KVCache | None = None
    for step in range(6):
        mask = AttentionMask.causal(step, 1, x.device)
        q, new = attention.project_qkv(x[:, step : step + 1], mask.queries)
        past = new if past is None else past.append(new)
        assert torch.allclose(attention(q, past, mask)[:, 0], at_once[:, step], atol=1e-5)


def test_memory_can_be_reordered() -> None:
    memory = multihead().project_keys_values(torch.randn(3, 4, D), torch.arange(4))
    swapped = memory.reorder(torch.tensor([2, 0, 0]))
    assert torch.equal(swapped.keys[0], memory.keys[2])
    assert torch.equal(swapped.values[2], memory.values[0])


def test_parameters_cost_no_more_with_more_heads() -> None:
    counts = set()
    for heads in (1, 2, 4, 8):
        attention = MultiHead(Sizes(D, heads, D // heads, 64), Fused(), InAttention(), True)
        counts.add(sum(p.numel() for p in attention.parameters()))
    assert len(counts) == 1
