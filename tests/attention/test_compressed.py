"""Memory-compressed attention, one query and one place at a time."""

import pytest
import torch
from torch import Tensor

from regard.attention import compressed
from regard.attention.compressed import Compressed
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention

B, H, K, W = 2, 2, 4, 3
HERE = torch.device("cpu")


def drawn(length: int) -> list[Tensor]:
    return [torch.randn(B, H, length, K, requires_grad=True) for _ in range(3)]


def built() -> Compressed:
    attention = Compressed(H, K, W)
    for each in attention.parameters():
        torch.nn.init.normal_(each, std=0.5)
    return attention


def place(words: Tensor, token_mask: Tensor, weights: Tensor) -> Tensor:
    """At most W words (·, K) as one, by the matrices (W·K, K) one after the other."""
    total = torch.zeros(K)
    for t, word in enumerate(words):
        if token_mask[t]:
            total = total + word @ weights[t * K : (t + 1) * K]
    return total


def written_out(
    attention: Compressed, q: Tensor, k: Tensor, v: Tensor, token_mask: Tensor, causal: bool
) -> tuple[Tensor, Tensor]:
    """The answers, and whose words they were found in, in equal parts of a place."""
    length = q.size(2)
    answers, weights = torch.zeros(B, H, length, K), torch.zeros(B, H, length, length)
    for b in range(B):
        for h in range(H):
            for i in range(length):
                seen: list[tuple[Tensor, Tensor, list[int]]] = []
                for start in range(0, length, W):
                    words = list(range(start, min(start + W, length)))
                    alive = [j for j in words if token_mask[b, j]]
                    own = i in words
                    if causal and (own or start > i):
                        seen += [(k[b, h, j], v[b, h, j], [j]) for j in alive if own and j <= i]
                    elif alive:
                        key = place(k[b, h, words], token_mask[b, words], attention.keys[h])
                        value = place(v[b, h, words], token_mask[b, words], attention.values[h])
                        seen.append((key, value, alive))
                if not seen:
                    continue
                scores = torch.stack([q[b, h, i] @ key / K**0.5 for key, _, _ in seen])
                for weight, (_, value, words) in zip(scores.softmax(0), seen, strict=True):
                    answers[b, h, i] = answers[b, h, i] + weight * value
                    for j in words:
                        weights[b, h, i, j] = weights[b, h, i, j] + weight.detach() / len(words)
    return answers, weights


@pytest.mark.parametrize("length", [1, 2, 6, 11])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_loops_say_the_same_forward_and_backward(
    length: int, causal: bool, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "QUERY_CHUNK", 4)  # so that queries fall into several parts
    attention, given = built(), drawn(length)
    token_mask = torch.arange(length) < torch.tensor([[length], [length // 2 + 1]])
    if not padded:
        token_mask = torch.ones_like(token_mask)
    mask = (
        AttentionMask.causal(0, length, HERE)
        if causal
        else AttentionMask.bidirectional(length, HERE)
    )
    mask = compressed.AttentionMask(
        mask.pattern, mask.queries, mask.keys, token_mask if padded else None
    )
    ours = attention(*given, mask, InAttention())
    theirs, weights = written_out(attention, *given, token_mask, causal)
    assert torch.allclose(ours, theirs, atol=1e-5)
    explained, told = attention.attend_with_weights(*given, mask, InAttention())
    assert torch.allclose(explained, theirs, atol=1e-5)
    assert torch.allclose(told, weights, atol=1e-5)
    toward, wanted = torch.randn_like(ours), [*given, *attention.parameters()]
    gradients = (
        torch.autograd.grad((each * toward).sum(), wanted, materialize_grads=True)
        for each in (ours, theirs)
    )
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_no_word_is_compressed_with_what_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "QUERY_CHUNK", 5)
    attention, (q, k, v) = built(), drawn(23)
    answers = attention(q, k, v, AttentionMask.causal(0, 23, HERE), InAttention())
    for i in range(23):
        for gradient in torch.autograd.grad(answers[:, :, i].sum(), (k, v), retain_graph=True):
            assert (gradient[:, :, i + 1 :] == 0).all()
            if i:  # all of the past is seen, some of it compressed
                assert (gradient[:, :, : i + 1].abs().amax((0, 1, 3)) > 0).all()


def test_it_begins_as_the_mean_of_its_words() -> None:
    attention, (q, k, v) = Compressed(H, K, W), drawn(9)
    mean = [x.view(B, H, 3, W, K).mean(3) for x in (k, v)]
    wanted = torch.nn.functional.scaled_dot_product_attention(q, *mean)
    found = attention(q, k, v, AttentionMask.bidirectional(9, HERE), InAttention())
    assert torch.allclose(found, wanted, atol=1e-6)
