"""Linformer: two small products in the place of a large one, and who shares what."""

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
HERE = torch.device("cpu")
SHARES: tuple[Share, ...] = ("none", "heads", "keys-values", "layers")


def built(share: Share) -> Attention:
    return Spec(rank=RANK, share=share).build(SIZES)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("length", [1, 6, LONGEST])
def test_the_projections_written_out_forward_and_backward(share: Share, length: int) -> None:
    attention = built(share)
    given = [torch.randn(B, H, length, K, requires_grad=True) for _ in range(3)]
    token_mask = torch.arange(length) < torch.tensor([[length], [length // 2 + 1]])
    ours = attention(*given, AttentionMask.bidirectional(length, HERE, token_mask), InAttention())
    e = attention.e.expand(H, LONGEST, RANK)
    f = attention.f.expand(H, LONGEST, RANK)
    rows = []
    for b in range(B):
        for h in range(H):
            places = [j for j in range(length) if token_mask[b, j]]
            q, k, v = (x[b, h] for x in given)
            for i in range(length):
                keys = [sum(e[h, j, r] * k[j] for j in places) for r in range(RANK)]
                values = [sum(f[h, j, r] * v[j] for j in places) for r in range(RANK)]
                weights = torch.stack([q[i] @ key / K**0.5 for key in keys]).softmax(0)
                rows.append(sum(w * value for w, value in zip(weights, values, strict=True)))
    theirs = torch.stack(rows).view(B, H, length, K)
    assert torch.allclose(ours, theirs, atol=1e-5)
    toward, wanted = torch.randn_like(ours), [*given, *attention.parameters()]
    gradients = (torch.autograd.grad((each * toward).sum(), wanted) for each in (ours, theirs))
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_what_is_shared_is_there_once() -> None:
    def numbers(share: Share) -> int:
        return sum(p.numel() for p in torch.nn.ModuleList(_stack(share)).parameters())

    one = LONGEST * RANK
    counts = [numbers(share) / one for share in SHARES]
    assert counts == [5 * H * 2, 5 * 2, 5, 1]


def _stack(share: Share) -> list[Attention]:
    return Spec(rank=RANK, share=share).stack(SIZES, 5)


def test_weights_shared_by_layers_are_kept_once_and_read_again() -> None:
    spec = _encoder(share="layers")
    one, other = spec.build(20).eval(), spec.build(20).eval()
    assert sum(name.endswith(".e") for name in weights_of(one)) == 1
    set_weights(other, weights_of(one), "a test")
    ids = torch.randint(0, 20, (2, 7))
    assert torch.equal(one(ids), other(ids))


@pytest.mark.parametrize("share", SHARES)
def test_heads_that_are_not_kept_are_gone(share: Share) -> None:
    whole = _encoder(share=share).build(20)
    fewer = _encoder(share=share, kept={"blocks.0.attention": (1,)}).build(20)
    assert fewer(torch.randint(0, 20, (2, 7))).shape == (2, 7, 8)
    apart = share == "none"
    assert (fewer.blocks[0].attention.attention.e.size(0) == 1) or not apart
    assert whole.blocks[0].attention.attention.e.size(0) == (2 if apart else 1)


def _encoder(share: Share, kept: dict[str, tuple[int, ...]] | None = None) -> ModelSpec:
    sizes = {"dim": 8, "heads": H, "ffn_dim": 16, "layers": 2, "max_length": LONGEST}
    attention = {"kind": "linformer", "rank": RANK, "share": share}
    given = {"kind": "encoder", **sizes, "attention": attention, "retained_heads": kept}
    return validate(ModelSpec, given, "a test")


def test_weights_are_told_to_words_by_what_they_give() -> None:
    attention = built("none")
    q, k, v = torch.randn(3, B, H, 6, K)
    token_mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    _, weights = attention.attend_with_weights(
        q, k, v, AttentionMask.bidirectional(6, HERE, token_mask), InAttention()
    )
    assert weights.shape == (B, H, 6, 6)
    assert (weights >= 0).all()
    assert (weights[1, :, :, 4:] == 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
    with torch.no_grad():
        attention.f[:, 2] = 0  # a word that gives nothing
    _, weights = attention.attend_with_weights(
        q, k, v, AttentionMask.bidirectional(6, HERE, token_mask), InAttention()
    )
    assert (weights[:, :, :, 2] == 0).all()


def test_what_it_cannot_do_is_refused_with_a_sentence() -> None:
    long = torch.randn(3, B, H, LONGEST + 1, K)
    with pytest.raises(ConfigError, match=r"projections for 9 tokens and got 10; set model"):
        built("heads")(*long, AttentionMask.bidirectional(LONGEST + 1, HERE), InAttention())
    with pytest.raises(ConfigError, match=r"rank 10 is more than model\.max_length 9"):
        Spec(rank=10).build(SIZES)
    for model in ("language-model", "encoder-decoder"):
        given = {"kind": model, "attention": "linformer", "dim": 8, "heads": 2}
        with pytest.raises(ConfigError, match=r"'linformer' cannot .*, which a decoder needs"):
            validate(ModelSpec, given, "a test").build(20)
    for position in ("alibi", "relative", "distance"):
        given = {"kind": "encoder", "attention": "linformer", "position": position}
        with pytest.raises(ConfigError, match="'linformer' cannot add"):
            validate(ModelSpec, given, "a test").build(20)
