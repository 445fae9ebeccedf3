"""Memory-compressed attention against loops over queries and blocks."""

import pytest
import torch
from torch import Tensor

from regard.attention import compressed
from regard.attention.compressed import Compressed
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention

B, H, K, W = 2, 2, 4, 3
CPU = torch.device("cpu")


def random_qkv(length: int) -> list[Tensor]:
    return [torch.randn(B, H, length, K, requires_grad=True) for _ in range(3)]


def build_attention() -> Compressed:
    attention = Compressed(H, K, W)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention


def compress(vectors: Tensor, token_mask: Tensor, weights: Tensor) -> Tensor:
    """Compress at most W vectors (·, K) into one with W matrices stacked as (W·K, K)."""
    total = torch.zeros(K)
    for t, vector in enumerate(vectors):
        if token_mask[t]:
            total = total + vector @ weights[t * K : (t + 1) * K]
    return total


def by_loops(
    attention: Compressed, q: Tensor, k: Tensor, v: Tensor, token_mask: Tensor, causal: bool
) -> tuple[Tensor, Tensor]:
    """Compute outputs and weights; a compressed block's weight is shared equally by its tokens."""
    length = q.size(2)
    outputs, weights = torch.zeros(B, H, length, K), torch.zeros(B, H, length, length)
    for b in range(B):
        for h in range(H):
            for i in range(length):
                attended: list[tuple[Tensor, Tensor, list[int]]] = []
                for start in range(0, length, W):
                    block = list(range(start, min(start + W, length)))
                    real = [j for j in block if token_mask[b, j]]
                    in_own_block = i in block
                    if causal and (in_own_block or start > i):
                        attended += [
                            (k[b, h, j], v[b, h, j], [j]) for j in real if in_own_block and j <= i
                        ]
                    elif real:
                        key = compress(k[b, h, block], token_mask[b, block], attention.keys[h])
                        value = compress(v[b, h, block], token_mask[b, block], attention.values[h])
                        attended.append((key, value, real))
                if not attended:
                    continue
                scores = torch.stack([q[b, h, i] @ key / K**0.5 for key, _, _ in attended])
                for weight, (_, value, tokens) in zip(scores.softmax(0), attended, strict=True):
                    outputs[b, h, i] = outputs[b, h, i] + weight * value
                    for j in tokens:
                        weights[b, h, i, j] = weights[b, h, i, j] + weight.detach() / len(tokens)
    return outputs, weights


@pytest.mark.parametrize("length", [1, 2, 6, 11])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_outputs_weights_and_gradients_equal_loops(
    length: int, causal: bool, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        compressed, "QUERY_CHUNK", 4
    )  # so that queries are split into several chunks
    attention, qkv = build_attention(), random_qkv(length)
    token_mask = torch.arange(length) < torch.tensor([[length], [length // 2 + 1]])
    if not padded:
        token_mask = torch.ones_like(token_mask)
    mask = (
        AttentionMask.causal(0, length, CPU) if causal else AttentionMask.bidirectional(length, CPU)
    )
    mask = compressed.AttentionMask(
        mask.pattern, mask.queries, mask.keys, token_mask if padded else None
    )
    outputs = attention(*qkv, mask, InAttention())
    expected, expected_weights = by_loops(attention, *qkv, token_mask, causal)
    assert torch.allclose(outputs, expected, atol=1e-5)
    from_weights, weights = attention.attend_with_weights(*qkv, mask, InAttention())
    assert torch.allclose(from_weights, expected, atol=1e-5)
    assert torch.allclose(weights, expected_weights, atol=1e-5)
    grad_output, inputs = torch.randn_like(outputs), [*qkv, *attention.parameters()]
    gradients = (
        torch.autograd.grad((output * grad_output).sum(), inputs, materialize_grads=True)
        for output in (outputs, expected)
    )
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_causal_outputs_do_not_depend_on_later_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "QUERY_CHUNK", 5)
    attention, (q, k, v) = build_attention(), random_qkv(23)
    outputs = attention(q, k, v, AttentionMask.causal(0, 23, CPU), InAttention())
    for i in range(23):
        for gradient in torch.autograd.grad(outputs[:, :, i].sum(), (k, v), retain_graph=True):
            assert (gradient[:, :, i + 1 :] == 0).all()
            if i:  # all earlier tokens are attended to, some compressed
                assert (gradient[:, :, : i + 1].abs().amax((0, 1, 3)) > 0).all()


def test_initial_compression_is_the_mean() -> None:
    attention, (q, k, v) = Compressed(H, K, W), random_qkv(9)
    mean = [x.view(B, H, 3, W, K).mean(3) for x in (k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(q, *mean)
    outputs = attention(q, k, v, AttentionMask.bidirectional(9, CPU), InAttention())
    assert torch.allclose(outputs, expected, atol=1e-6)
