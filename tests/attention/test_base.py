"""The contract of attention: every kind, with every kind of position, with every mask."""

import pytest
import torch
from torch import Tensor

from regard.attention.base import Attention, AttentionSpec
from regard.attention.masks import AttentionMask, Causal, Full, Window
from regard.attention.reference import dot_product_attention
from regard.config import kinds, validate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.positions.base import InAttention, PositionSpec, Sizes
from regard.positions.trees import Trees

B, H, T, K = 3, 4, 7, 8
SIZES = Sizes(dim=H * K, heads=H, head_dim=K, max_length=64)
KINDS = kinds("regard.attention")
POSITIONS = kinds("regard.positions")


def kinds_supporting(*capabilities: str) -> list[str]:
    """Return the kinds with all these capabilities; other kinds are not tested for them."""
    return [kind for kind in KINDS if supports(kind) >= set(capabilities)]


def supports(kind: str) -> frozenset[str]:
    return type(AttentionSpec.model_validate(kind)).supports


def with_positions(*capabilities: str) -> list[tuple[str, str]]:
    return [
        (kind, position)
        for kind in kinds_supporting(*capabilities)
        for position in POSITIONS
        if supports(kind) >= type(PositionSpec.model_validate(position)).requires
    ]


PATTERNS = {
    "full": Full(),
    "causal": Causal(),
    "window": Window(2),
    "causal window": Causal() & Window(2),
    "either": Causal() | Window(1),
}


# Settings with which tokens of these short sequences do not attend to all others.
SETTINGS = {
    "block-local": {"size": 3},
    "window": {"size": 2},
    "bigbird": {"block": 1, "window": 1, "global": 1, "random": 1},
}

# Kinds that never compute the weight of a single pair and cannot mask one.
WITHOUT_PAIRS = ("linear", "compressed")


def build(kind: str) -> Attention:
    return AttentionSpec.model_validate({"kind": kind, **SETTINGS.get(kind, {})}).build(SIZES)


def encoding_of(kind: str) -> InAttention:
    trees = Trees(torch.arange(T).expand(B, T), torch.arange(T).expand(B, T) // 2)
    return PositionSpec.model_validate(kind).in_attention(SIZES).on(trees)


def queries_keys_values() -> list[Tensor]:
    return [torch.randn(B, H, T, K, requires_grad=True) for _ in range(3)]


def some_token_mask() -> Tensor:
    token_mask = torch.ones(B, T, dtype=torch.bool)
    token_mask[0, 5:], token_mask[1, 3:] = False, False
    return token_mask


def mask_of(pattern: str, padded: bool) -> AttentionMask:
    positions = torch.arange(T)
    return AttentionMask(
        PATTERNS[pattern], positions, positions, some_token_mask() if padded else None
    )


@pytest.mark.parametrize("kind", kinds_supporting("padding"))
@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_weights_are_positive_exactly_where_the_mask_allows(kind: str, pattern: str) -> None:
    if pattern == "causal" and "causal" not in supports(kind):
        return
    for padded in (False, True):
        mask = mask_of(pattern, padded)
        weights = build(kind).attend_with_weights(*queries_keys_values(), mask, InAttention())[1]
        may_attend = build(kind).dense_mask(mask)
        expected = torch.ones(()).bool() if may_attend is None else may_attend
        assert ((weights > 0) == expected.expand_as(weights)).all()


@pytest.mark.parametrize(
    ("kind", "position", "pattern"),
    [
        (kind, position, pattern)
        for pattern in PATTERNS
        for kind, position in with_positions("padding")
        if pattern == "full" or "causal" in supports(kind)
        if pattern in ("full", "causal") or kind not in WITHOUT_PAIRS
    ],
)
@pytest.mark.parametrize("padded", [False, True])
def test_outputs_and_gradients_equal_attend_with_weights(
    kind: str, position: str, pattern: str, padded: bool
) -> None:
    attention, encoding, mask = build(kind), encoding_of(position), mask_of(pattern, padded)
    qkv = queries_keys_values()
    grad_output = torch.randn(B, H, T, K)
    outputs = attention(*qkv, mask, encoding)
    from_weights, weights = attention.attend_with_weights(*qkv, mask, encoding)
    assert torch.allclose(outputs, from_weights, atol=1e-5)
    fast_gradients = torch.autograd.grad((outputs * grad_output).sum(), qkv)
    slow_gradients = torch.autograd.grad((from_weights * grad_output).sum(), qkv)
    for one, other in zip(fast_gradients, slow_gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    if mask.dense is not None:
        assert (weights.masked_select(~mask.dense.expand_as(weights)) == 0).all()
        if kind not in SETTINGS:
            attends_somewhere = mask.dense.any(-1).expand(B, H, T)
            assert torch.allclose(weights.sum(-1)[attends_somewhere], torch.ones(()), atol=1e-5)
    total = weights.sum(-1)
    assert (torch.isclose(total, torch.ones(()), atol=1e-5) | (total == 0)).all()


@pytest.mark.parametrize("kind", kinds_supporting("padding"))
def test_retained_heads_give_the_same_outputs(kind: str) -> None:
    attention, mask = build(kind), mask_of("full", padded=True)
    q, k, v = (x.detach() for x in queries_keys_values())
    all_heads = attention(q, k, v, mask, InAttention())
    retained = [0, 2]
    attention.retain_heads(retained)
    some_heads = attention(q[:, retained], k[:, retained], v[:, retained], mask, InAttention())
    assert torch.allclose(some_heads, all_heads[:, retained], atol=1e-6)


@pytest.mark.parametrize("kind", ["reference", "fused"])
def test_outputs_match_equation(kind: str) -> None:
    """o_i = Σ_j α_ij v_j, α = softmax(q·k/√K), pair by pair."""
    q, k, v = (x.detach() for x in queries_keys_values())
    output = build(kind)(q, k, v, mask_of("full", padded=False), InAttention())
    for i in range(T):
        scores = [float(q[1, 2, i] @ k[1, 2, j]) / K**0.5 for j in range(T)]
        exponentials = torch.tensor(scores).exp()
        expected = sum(float(exponentials[j] / exponentials.sum()) * v[1, 2, j] for j in range(T))
        assert torch.allclose(output[1, 2, i], expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "position"), with_positions("padding"))
def test_fully_masked_row_has_zero_outputs_and_gradients(kind: str, position: str) -> None:
    qkv = queries_keys_values()
    token_mask = torch.ones(B, T, dtype=torch.bool)
    token_mask[1] = False
    mask = AttentionMask(Full(), torch.arange(T), torch.arange(T), token_mask)
    output = build(kind)(*qkv, mask, encoding_of(position))
    assert (output[1] == 0).all()
    gradients = torch.autograd.grad(output.sum(), qkv)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert all((gradient[1] == 0).all() for gradient in gradients)


@pytest.mark.parametrize(("kind", "position"), with_positions("causal"))
def test_causal_outputs_do_not_depend_on_later_tokens(kind: str, position: str) -> None:
    """d output_i / d input_j = 0 for j > i, by gradient."""
    q, k, v = queries_keys_values()
    output = build(kind)(q, k, v, mask_of("causal", padded=False), encoding_of(position))
    for i in range(T):
        of_keys, of_values = torch.autograd.grad(output[:, :, i].sum(), (k, v), retain_graph=True)
        assert (of_keys[:, :, i + 1 :] == 0).all()
        assert (of_values[:, :, i + 1 :] == 0).all()
        assert (of_values[:, :, : i + 1] != 0).any()


@pytest.mark.parametrize("kind", kinds_supporting("padding"))
def test_padding_does_not_change_outputs(kind: str) -> None:
    q, k, v = (x.detach() for x in queries_keys_values())
    mask, attention = AttentionMask.cross(T, some_token_mask()), build(kind)
    before = attention(q, k, v, mask, InAttention())
    is_padding = ~some_token_mask()[:, None, :, None].expand_as(k)
    k, v = k.masked_fill(is_padding, 1e3), v.masked_fill(is_padding, -1e3)
    assert torch.allclose(before, attention(q, k, v, mask, InAttention()), atol=1e-6)


@pytest.mark.parametrize("kind", WITHOUT_PAIRS)
@pytest.mark.parametrize("pattern", ["window", "causal window", "either"])
def test_unsupported_masks_are_refused(kind: str, pattern: str) -> None:
    mask = mask_of(pattern, padded=False)
    with pytest.raises(ConfigError, match=f"'{kind}' supports full and causal masks"):
        build(kind)(*queries_keys_values(), mask, InAttention())


def test_scaled_scores_have_unit_variance() -> None:
    """The variance of q·k is K; divided by √K it is 1, whatever K is."""
    for size in (16, 256):
        q, k = torch.randn(2, 200, size)
        assert abs(float((q @ k.T).var()) / size - 1) < 0.2
        _, weights = dot_product_attention(q, k, k)
        _, unscaled = dot_product_attention(q, k, k, scale=1.0)
        assert weights.amax(-1).mean() < unscaled.amax(-1).mean()


def test_missing_capabilities_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.attention import reference

    monkeypatch.setattr(reference.Spec, "supports", frozenset({"padding", "cross", "cache"}))
    spec = validate(ModelSpec, {"kind": "language-model", "attention": "reference"}, "recipe")
    with pytest.raises(ConfigError, match="'reference' cannot attend causally"):
        spec.build(10)
    spec = validate(
        ModelSpec, {"kind": "encoder", "attention": "reference", "position": "alibi"}, "recipe"
    )
    with pytest.raises(ConfigError, match="cannot add a bias to its scores"):
        spec.build(10)
