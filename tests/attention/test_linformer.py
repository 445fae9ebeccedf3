"""Linformer attention: projections of keys and values, and how they are shared."""

import pytest
import torch

from regard.attention.base import Attention
from regard.attention.linformer import Share, Spec
from regard.attention.masks import AttentionMask
from regard.config import validate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.weights import set_weights, weights_of
from regard.positions.base import InAttention, Sizes

B, H, K, LONGEST, RANK = 2, 2, 4, 9, 3
SIZES = Sizes(dim=H * K, heads=H, head_dim=K, max_length=LONGEST)
CPU = torch.device("cpu")
SHARES: tuple[Share, ...] = ("none", "heads", "keys-values", "layers")


def build_attention(share: Share) -> Attention:
    return Spec(rank=RANK, share=share).build(SIZES)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("length", [1, 6, LONGEST])
def test_outputs_and_gradients_equal_loops_over_projections(share: Share, length: int) -> None:
    attention = build_attention(share)
    qkv = [torch.randn(B, H, length, K, requires_grad=True) for _ in range(3)]
    token_mask = torch.arange(length) < torch.tensor([[length], [length // 2 + 1]])
    outputs = attention(*qkv, AttentionMask.bidirectional(length, CPU, token_mask), InAttention())
    e = attention.e.expand(H, LONGEST, RANK)
    f = attention.f.expand(H, LONGEST, RANK)
    rows = []
    for b in range(B):
        for h in range(H):
            positions = [j for j in range(length) if token_mask[b, j]]
            q, k, v = (x[b, h] for x in qkv)
            for i in range(length):
                keys = [sum(e[h, j, r] * k[j] for j in positions) for r in range(RANK)]
                values = [sum(f[h, j, r] * v[j] for j in positions) for r in range(RANK)]
                weights = torch.stack([q[i] @ key / K**0.5 for key in keys]).softmax(0)
                rows.append(sum(w * value for w, value in zip(weights, values, strict=True)))
    expected = torch.stack(rows).view(B, H, length, K)
    assert torch.allclose(outputs, expected, atol=1e-5)
    grad_output, inputs = torch.randn_like(outputs), [*qkv, *attention.parameters()]
    gradients = (
        torch.autograd.grad((output * grad_output).sum(), inputs) for output in (outputs, expected)
    )
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_shared_projections_are_counted_once() -> None:
    def num_parameters(share: Share) -> int:
        return sum(p.numel() for p in torch.nn.ModuleList(_stack(share)).parameters())

    one = LONGEST * RANK
    counts = [num_parameters(share) / one for share in SHARES]
    assert counts == [5 * H * 2, 5 * 2, 5, 1]


def _stack(share: Share) -> list[Attention]:
    return Spec(rank=RANK, share=share).stack(SIZES, 5)


def test_projections_shared_by_layers_are_saved_once_and_loaded() -> None:
    spec = _encoder(share="layers")
    one, other = spec.build(20).eval(), spec.build(20).eval()
    assert sum(name.endswith(".e") for name in weights_of(one)) == 1
    set_weights(other, weights_of(one), "a test")
    ids = torch.randint(0, 20, (2, 7))
    assert torch.equal(one(ids), other(ids))


@pytest.mark.parametrize("share", SHARES)
def test_projections_of_pruned_heads_are_removed(share: Share) -> None:
    full = _encoder(share=share).build(20)
    pruned = _encoder(share=share, retained={"blocks.0.attention": (1,)}).build(20)
    assert pruned(torch.randint(0, 20, (2, 7))).shape == (2, 7, 8)
    per_head = share == "none"
    assert (pruned.blocks[0].attention.attention.e.size(0) == 1) or not per_head
    assert full.blocks[0].attention.attention.e.size(0) == (2 if per_head else 1)


def _encoder(share: Share, retained: dict[str, tuple[int, ...]] | None = None) -> ModelSpec:
    sizes = {"dim": 8, "heads": H, "ffn_dim": 16, "layers": 2, "max_length": LONGEST}
    attention = {"kind": "linformer", "rank": RANK, "share": share}
    config = {"kind": "encoder", **sizes, "attention": attention, "retained_heads": retained}
    return validate(ModelSpec, config, "a test")


def test_weights_are_assigned_to_tokens_by_their_projection() -> None:
    attention = build_attention("none")
    q, k, v = torch.randn(3, B, H, 6, K)
    token_mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    _, weights = attention.attend_with_weights(
        q, k, v, AttentionMask.bidirectional(6, CPU, token_mask), InAttention()
    )
    assert weights.shape == (B, H, 6, 6)
    assert (weights >= 0).all()
    assert (weights[1, :, :, 4:] == 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
    with torch.no_grad():
        attention.f[:, 2] = 0  # a token with a projection of zero
    _, weights = attention.attend_with_weights(
        q, k, v, AttentionMask.bidirectional(6, CPU, token_mask), InAttention()
    )
    assert (weights[:, :, :, 2] == 0).all()


def test_unsupported_lengths_models_and_positions_are_refused() -> None:
    long = torch.randn(3, B, H, LONGEST + 1, K)
    with pytest.raises(ConfigError, match=r"projections for 9 tokens and got 10; set model"):
        build_attention("heads")(
            *long, AttentionMask.bidirectional(LONGEST + 1, CPU), InAttention()
        )
    with pytest.raises(ConfigError, match=r"rank 10 is more than model\.max_length 9"):
        Spec(rank=10).build(SIZES)
    for model in ("language-model", "encoder-decoder"):
        config = {"kind": model, "attention": "linformer", "dim": 8, "heads": 2}
        with pytest.raises(ConfigError, match=r"'linformer' cannot .*, which a decoder needs"):
            validate(ModelSpec, config, "a test").build(20)
    for position in ("alibi", "relative", "distance"):
        config = {"kind": "encoder", "attention": "linformer", "position": position}
        with pytest.raises(ConfigError, match="'linformer' cannot add"):
            validate(ModelSpec, config, "a test").build(20)
