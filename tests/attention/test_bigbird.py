"""BigBird attention: block computation against the same pattern as a dense mask."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attention.memory import saved_sizes
from torch import Tensor

from regard.attention import bigbird
from regard.attention.base import AttentionSpec
from regard.attention.bigbird import BigBirdAttention
from regard.attention.fused import Fused
from regard.attention.masks import AttentionMask, BigBird
from regard.attention.reference import dot_product_attention
from regard.config import plain, validate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.positions.base import InAttention

B, H, K = 3, 2, 4
CPU = torch.device("cpu")


def queries_keys_values(length: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    return [torch.randn(B, H, length, K, generator=generator).requires_grad_() for _ in range(3)]


def token_mask_of(length: int) -> Tensor:
    lengths = torch.tensor([length, max(1, length // 2), 0])
    return torch.arange(length) < lengths[:, None]


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 60),
    block=st.integers(1, 5),
    window=st.sampled_from([1, 3, 5]),
    first=st.integers(0, 3),
    random=st.integers(0, 3),
    padded=st.booleans(),
    tile=st.sampled_from([1, 3, 64]),
    compiled=st.booleans(),
)
def test_equals_dense_attention_with_the_same_mask(
    length: int,
    block: int,
    window: int,
    first: int,
    random: int,
    padded: bool,
    tile: int,
    compiled: bool,
) -> None:
    """Each row has its own pattern; the compiled kernel and the torch fallback are tested."""
    qkv = queries_keys_values(length)
    attention = BigBirdAttention(block, window, first, random, seed=1)
    token_mask = token_mask_of(length) if padded else torch.ones(B, length, dtype=torch.bool)
    mask = AttentionMask.bidirectional(length, CPU, token_mask if padded else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bigbird, "TILE", tile)
        if not compiled:
            patch.setattr(bigbird, "is_supported", lambda *_: False)
        outputs = attention(*qkv, mask, InAttention())
    dense = []
    for row, num_tokens in enumerate(token_mask.sum(1).tolist()):
        pattern = BigBird(block, window, first, random, 1, -(-num_tokens // block))
        positions = torch.arange(num_tokens)
        may_attend = pattern.allows(positions[:, None], positions[None])
        dense.append(dot_product_attention(*(x[row, :, :num_tokens] for x in qkv), may_attend)[0])
    grad_output = torch.linspace(-1, 1, outputs.numel()).view_as(outputs)
    for one, other in zip(outputs, dense, strict=True):
        assert torch.allclose(one[:, : other.size(1)], other, atol=1e-5)
    one_sum = (outputs * grad_output)[token_mask[:, None].expand(B, H, length)].sum()
    other_sum = sum((x * grad_output[row, :, : x.size(1)]).sum() for row, x in enumerate(dense))
    for one, other in zip(
        torch.autograd.grad(one_sum, qkv), torch.autograd.grad(other_sum, qkv), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)
    from_weights, weights = attention.attend_with_weights(*qkv, mask, InAttention())
    assert torch.allclose(outputs, from_weights, atol=1e-5)
    assert (weights.masked_select(~token_mask[:, None, None].expand_as(weights)) == 0).all()


@given(
    blocks=st.integers(1, 30),
    window=st.sampled_from([1, 3, 5]),
    first=st.integers(0, 3),
    random=st.integers(0, 4),
    seed=st.integers(0, 9),
)
def test_random_blocks_are_distinct_and_outside_window_and_global_blocks(
    blocks: int, window: int, first: int, random: int, seed: int
) -> None:
    drawn = BigBird(1, window, first, random, seed, blocks).drawn.tolist()
    assert drawn.pop() == [-1] * random
    for own, others in enumerate(drawn):
        drawn_blocks = [other for other in others if other >= 0]
        candidates = [x for x in range(first, blocks) if abs(x - own) > window // 2]
        assert set(drawn_blocks) <= set(candidates)
        assert len(set(drawn_blocks)) == len(drawn_blocks) == min(random, len(candidates))


def test_random_blocks_are_uniform() -> None:
    """Each block outside the window and the global blocks is drawn about equally often."""
    blocks, times = 12, 600
    counts = torch.zeros(blocks)
    for seed in range(times):
        counts[BigBird(1, 3, 2, 2, seed, blocks).drawn[6]] += 1
    assert counts[[0, 1, 5, 6, 7]].sum() == 0
    others = counts[[2, 3, 4, 8, 9, 10, 11]] / times  # 2 of 7 each time
    assert ((others - 2 / 7).abs() < 0.08).all()


def test_pattern_depends_on_the_seed() -> None:
    def pattern(seed: int) -> Tensor:
        return BigBird(2, 1, 1, 2, seed, 20).drawn

    assert torch.equal(pattern(3), pattern(3))
    assert not torch.equal(pattern(3), pattern(4))


def test_few_blocks_give_full_attention() -> None:
    qkv = queries_keys_values(14)
    mask = AttentionMask.bidirectional(14, CPU)
    outputs = BigBirdAttention(2, 3, 2, 3, 0)(*qkv, mask, InAttention())
    assert torch.equal(outputs, Fused()(*qkv, mask, InAttention()))


def test_no_quadratic_tensor_is_saved_for_backward() -> None:
    length, attention = 4096, BigBirdAttention(16, 3, 1, 1, 0)
    q, k, v = (torch.randn(1, 1, length, 8).requires_grad_() for _ in range(3))
    with saved_sizes() as saved:
        attention(q, k, v, AttentionMask.bidirectional(length, CPU), InAttention())
    assert max(saved) < length * length / 8


def test_outputs_do_not_depend_on_padding_or_batch() -> None:
    attention = {"kind": "bigbird", "block": 2, "window": 1, "global": 1, "random": 1}
    sizes = {"kind": "encoder", "dim": 16, "heads": 2, "ffn_dim": 32, "layers": 2, "dropout": 0.0}
    torch.manual_seed(0)
    model = ModelSpec.model_validate({**sizes, "attention": attention}).build(20).eval()
    ids = torch.randint(20, (1, 17))
    alone = model(ids)
    padded_ids = torch.cat([ids, torch.zeros(1, 40, dtype=torch.long)], dim=1).expand(2, -1)
    token_mask = torch.arange(57) < torch.tensor([[17], [57]])
    assert torch.allclose(model(padded_ids, token_mask)[0, :17], alone[0], atol=1e-5)


def test_settings_survive_a_round_trip() -> None:
    config = {"kind": "bigbird", "block": 8, "window": 5, "global": 1, "random": 0, "seed": 3}
    spec = validate(AttentionSpec, config, "recipe")
    assert plain(spec) == config
    assert validate(AttentionSpec, plain(spec), "recipe") == spec


def test_invalid_settings_are_refused() -> None:
    for invalid, message in (
        ({"window": 2}, "window 2 is even"),
        ({"global": -1}, "global: .*greater than or equal to 0"),
        ({"block": 0}, "greater than 0"),
        ({"globl": 1}, "did you mean 'global'"),
        ({"first": 1}, "unknown key 'first'"),
    ):
        with pytest.raises(ConfigError, match=message):
            validate(AttentionSpec, {"kind": "bigbird", **invalid}, "recipe")


def test_decoders_and_score_bias_are_refused() -> None:
    spec = ModelSpec.model_validate({"kind": "language-model", "attention": "bigbird"})
    with pytest.raises(ConfigError, match=r"'bigbird' cannot .*, which a decoder needs"):
        spec.build(10)
    config = {"kind": "encoder", "attention": "bigbird", "position": "alibi"}
    with pytest.raises(ConfigError, match="cannot add a bias to its scores"):
        ModelSpec.model_validate(config).build(10)


def test_global_blocks_beyond_max_length_are_refused() -> None:
    config = {"kind": "encoder", "max_length": 64, "attention": {"kind": "bigbird", "global": 3}}
    with pytest.raises(ConfigError, match="3 blocks of 64 tokens exceed the 64"):
        ModelSpec.model_validate(config).build(10)
