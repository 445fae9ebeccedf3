"""The contract of the room: every kind of attention, with every kind of position, on every mask."""

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


def able(*needs: str) -> list[str]:
    """The kinds that honour these needs; of the others nothing is promised, so nothing is asked."""
    return [kind for kind in KINDS if supports(kind) >= set(needs)]


def supports(kind: str) -> frozenset[str]:
    return type(AttentionSpec.model_validate(kind)).supports


def with_positions(*needs: str) -> list[tuple[str, str]]:
    return [
        (kind, position)
        for kind in able(*needs)
        for position in POSITIONS
        if supports(kind) >= type(PositionSpec.model_validate(position)).requires
    ]


STRUCTURES = {
    "everything": Full(),
    "causal": Causal(),
    "window": Window(2),
    "causal window": Causal() & Window(2),
    "either": Causal() | Window(1),
}


# Settings under which not all of a sequence as short as these is seen.
SETTINGS = {
    "block-local": {"size": 3},
    "window": {"size": 2},
    "bigbird": {"block": 1, "window": 1, "global": 1, "random": 1},
}

# Kinds that have sums in the place of pairs, and can mask no pair by itself.
SUMMING = ("linear", "compressed")


def build(kind: str) -> Attention:
    return AttentionSpec.model_validate({"kind": kind, **SETTINGS.get(kind, {})}).build(SIZES)


def position_named(kind: str) -> InAttention:
    trees = Trees(torch.arange(T).expand(B, T), torch.arange(T).expand(B, T) // 2)
    return PositionSpec.model_validate(kind).in_attention(SIZES).on(trees)


def queries_keys_values() -> list[Tensor]:
    return [torch.randn(B, H, T, K, requires_grad=True) for _ in range(3)]


def a_token_mask() -> Tensor:
    token_mask = torch.ones(B, T, dtype=torch.bool)
    token_mask[0, 5:], token_mask[1, 3:] = False, False
    return token_mask


def view_of(structure: str, padded: bool) -> AttentionMask:
    positions = torch.arange(T)
    return AttentionMask(
        STRUCTURES[structure], positions, positions, a_token_mask() if padded else None
    )


@pytest.mark.parametrize("kind", able("padding"))
@pytest.mark.parametrize("structure", ["everything", "causal"])
def test_weights_are_where_a_word_may_look(kind: str, structure: str) -> None:
    if structure == "causal" and "causal" not in supports(kind):
        return
    for padded in (False, True):
        mask = view_of(structure, padded)
        weights = build(kind).attend_with_weights(*queries_keys_values(), mask, InAttention())[1]
        visible = build(kind).dense_mask(mask)
        expected = torch.ones(()).bool() if visible is None else visible
        assert ((weights > 0) == expected.expand_as(weights)).all()


@pytest.mark.parametrize(
    ("kind", "position", "structure"),
    [
        (kind, position, structure)
        for structure in STRUCTURES
        for kind, position in with_positions("padding")
        if structure == "everything" or "causal" in supports(kind)
        if structure in ("everything", "causal") or kind not in SUMMING
    ],
)
@pytest.mark.parametrize("padded", [False, True])
def test_agrees_with_its_explanation_forward_and_backward(
    kind: str, position: str, structure: str, padded: bool
) -> None:
    attention, place, mask = build(kind), position_named(position), view_of(structure, padded)
    given = queries_keys_values()
    toward = torch.randn(B, H, T, K)
    fast = attention(*given, mask, place)
    explained, weights = attention.attend_with_weights(*given, mask, place)
    assert torch.allclose(fast, explained, atol=1e-5)
    fast_gradients = torch.autograd.grad((fast * toward).sum(), given)
    slow_gradients = torch.autograd.grad((explained * toward).sum(), given)
    for one, other in zip(fast_gradients, slow_gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    if mask.dense is not None:
        assert (weights.masked_select(~mask.dense.expand_as(weights)) == 0).all()
        if kind not in SETTINGS:
            seeing = mask.dense.any(-1).expand(B, H, T)
            assert torch.allclose(weights.sum(-1)[seeing], torch.ones(()), atol=1e-5)
    total = weights.sum(-1)
    assert (torch.isclose(total, torch.ones(()), atol=1e-5) | (total == 0)).all()


@pytest.mark.parametrize("kind", able("padding"))
def test_heads_that_are_kept_find_what_they_found(kind: str) -> None:
    attention, mask = build(kind), view_of("everything", padded=True)
    q, k, v = (x.detach() for x in queries_keys_values())
    whole = attention(q, k, v, mask, InAttention())
    kept = [0, 2]
    attention.retain_heads(kept)
    fewer = attention(q[:, kept], k[:, kept], v[:, kept], mask, InAttention())
    assert torch.allclose(fewer, whole[:, kept], atol=1e-6)


@pytest.mark.parametrize("kind", ["reference", "fused"])
def test_the_equation_written_out(kind: str) -> None:
    """o_i = Σ_j α_ij v_j, α = softmax(q·k/√K), one number at a time."""
    q, k, v = (x.detach() for x in queries_keys_values())
    answer = build(kind)(q, k, v, view_of("everything", padded=False), InAttention())
    for i in range(T):
        scores = [float(q[1, 2, i] @ k[1, 2, j]) / K**0.5 for j in range(T)]
        grown = torch.tensor(scores).exp()
        expected = sum(float(grown[j] / grown.sum()) * v[1, 2, j] for j in range(T))
        assert torch.allclose(answer[1, 2, i], expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "position"), with_positions("padding"))
def test_a_row_with_nothing_to_see_gives_zeros_both_ways(kind: str, position: str) -> None:
    given = queries_keys_values()
    token_mask = torch.ones(B, T, dtype=torch.bool)
    token_mask[1] = False
    mask = AttentionMask(Full(), torch.arange(T), torch.arange(T), token_mask)
    answer = build(kind)(*given, mask, position_named(position))
    assert (answer[1] == 0).all()
    gradients = torch.autograd.grad(answer.sum(), given)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert all((gradient[1] == 0).all() for gradient in gradients)


@pytest.mark.parametrize(("kind", "position"), with_positions("causal"))
def test_nobody_looks_ahead(kind: str, position: str) -> None:
    """d output_i / d input_j = 0 for j > i, by gradient."""
    q, k, v = queries_keys_values()
    answer = build(kind)(q, k, v, view_of("causal", padded=False), position_named(position))
    for i in range(T):
        of_keys, of_values = torch.autograd.grad(answer[:, :, i].sum(), (k, v), retain_graph=True)
        assert (of_keys[:, :, i + 1 :] == 0).all()
        assert (of_values[:, :, i + 1 :] == 0).all()
        assert (of_values[:, :, : i + 1] != 0).any()


@pytest.mark.parametrize("kind", able("padding"))
def test_what_padding_holds_changes_nothing(kind: str) -> None:
    q, k, v = (x.detach() for x in queries_keys_values())
    mask, attention = AttentionMask.cross(T, a_token_mask()), build(kind)
    before = attention(q, k, v, mask, InAttention())
    hidden = ~a_token_mask()[:, None, :, None].expand_as(k)
    k, v = k.masked_fill(hidden, 1e3), v.masked_fill(hidden, -1e3)
    assert torch.allclose(before, attention(q, k, v, mask, InAttention()), atol=1e-6)


@pytest.mark.parametrize("kind", SUMMING)
@pytest.mark.parametrize("structure", ["window", "causal window", "either"])
def test_a_mask_that_cannot_be_honoured_is_refused(kind: str, structure: str) -> None:
    mask = view_of(structure, padded=False)
    with pytest.raises(ConfigError, match=f"'{kind}' supports full and causal masks"):
        build(kind)(*queries_keys_values(), mask, InAttention())


def test_scaling_keeps_the_scores_at_unit_variance() -> None:
    """The variance of q·k is K; divided by √K it is 1, whatever K is."""
    for size in (16, 256):
        q, k = torch.randn(2, 200, size)
        assert abs(float((q @ k.T).var()) / size - 1) < 0.2
        _, weights = dot_product_attention(q, k, k)
        _, unscaled = dot_product_attention(q, k, k, scale=1.0)
        assert weights.amax(-1).mean() < unscaled.amax(-1).mean()


def test_a_kind_that_cannot_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
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
