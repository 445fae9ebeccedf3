"""The local window: the dense mask, in blocks."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attention.memory import saved_sizes
from torch import Tensor

import regard
from regard.attention import window
from regard.attention.base import Attention, AttentionSpec
from regard.attention.fused import Fused
from regard.attention.kv_cache import KVCache
from regard.attention.masks import AttentionMask, Causal, Window
from regard.attention.reference import masked_attention
from regard.config import kinds, validate
from regard.decoding.speculative import DraftTokens, PromptLookup, speculate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.positions.base import InAttention, PositionSpec, Sizes

B, H, K = 2, 2, 4
SIZES = Sizes(H * K, H, K, max_length=64)
CPU = torch.device("cpu")
SMALL = {"dim": 16, "heads": 4, "ffn_dim": 32, "layers": 2, "dropout": 0.0, "max_length": 64}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short sequences have several."""
    monkeypatch.setattr(window, "BLOCK", 4)


def attention_of(size: int, dilation: int = 1) -> Attention:
    given = {"kind": "window", "size": size, "dilation": dilation}
    return AttentionSpec.model_validate(given).build(SIZES)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def queries_keys_values(queries: int, keys: int) -> list[Tensor]:
    q, k, v = (drawn(B, H, length, K) for length in (queries, keys, keys + 1))
    return [x.requires_grad_() for x in (q, k, v[:, :, 1:].clone())]


def assert_same_as_dense(
    attention: Attention, neighborhood: Window, mask: AttentionMask, position: InAttention
) -> None:
    """Against the reference with the same mask, forward and backward, position's weights too."""
    given = queries_keys_values(len(mask.queries), len(mask.keys))
    asked = [*given, *position.parameters()]
    ours = attention(*given, mask, position)
    dense = masked_attention(*given, mask.and_(neighborhood), position)[0]
    assert torch.allclose(ours, dense, atol=1e-5)
    toward = drawn(*ours.shape)
    for one, other in zip(
        torch.autograd.grad((ours * toward).sum(), asked, allow_unused=True),
        torch.autograd.grad((dense * toward).sum(), asked, allow_unused=True),
        strict=True,
    ):
        assert (one is None and other is None) or torch.allclose(one, other, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 40),
    size=st.integers(1, 12),
    dilation=st.integers(1, 4),
    causal=st.booleans(),
    past=st.integers(0, 20),
    block=st.sampled_from([1, 3, 4, 8]),
    tile=st.sampled_from([1, 3, 16, 64]),
    compiled=st.booleans(),
)
def test_equals_the_same_mask_applied_densely(
    length: int,
    size: int,
    dilation: int,
    causal: bool,
    past: int,
    block: int,
    tile: int,
    compiled: bool,
) -> None:
    """On a CPU compiled, on other machines all blocks at once: both are tried here."""
    mask = (
        AttentionMask.causal(past, length, CPU)
        if causal
        else AttentionMask.bidirectional(length, CPU)
    )
    dilation = min(dilation, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "BLOCK", block)
        patch.setattr(window, "TILE", tile)
        window._plan.cache_clear()
        if not compiled:
            patch.setattr(window, "is_supported", lambda *_: False)
        assert_same_as_dense(
            attention_of(size, dilation), Window(size, dilation), mask, InAttention()
        )


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("position", kinds("regard.positions"))
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dilation", [1, 2])
def test_positions_are_those_of_the_whole(position: str, causal: bool, dilation: int) -> None:
    spec = PositionSpec.model_validate(position)
    place = spec.in_attention(SIZES)
    mask = AttentionMask.causal(3, 22, CPU) if causal else AttentionMask.bidirectional(25, CPU)
    assert_same_as_dense(attention_of(4, dilation), Window(4, dilation), mask, place)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("compiled", [True, False])
def test_padding_and_documents_are_heeded(
    monkeypatch: pytest.MonkeyPatch, dilation: int, compiled: bool
) -> None:
    if not compiled:
        monkeypatch.setattr(window, "is_supported", lambda *_: False)
    length = 26
    token_mask = torch.ones(B, length, dtype=torch.bool)
    token_mask[0, 11:], token_mask[1, :3] = False, False
    documents = torch.arange(length).expand(B, -1) // torch.tensor([[5], [9]])
    for mask in (
        AttentionMask.bidirectional(length, CPU, token_mask),
        AttentionMask.causal(0, length, CPU, documents),
        AttentionMask(Causal(), torch.arange(length), torch.arange(length), token_mask),
    ):
        neighborhood = Window(4, dilation)
        assert_same_as_dense(attention_of(4, dilation), neighborhood, mask, InAttention())


@pytest.mark.usefixtures("small_blocks")
def test_however_the_numbers_lie_in_memory() -> None:
    given = [drawn(B, H, K, 21).requires_grad_() for _ in range(3)]
    mask, neighborhood = AttentionMask.causal(0, 21, CPU), Window(4)
    turned = [x.transpose(2, 3) for x in given]
    ours = attention_of(4)(*turned, mask, InAttention())
    dense = masked_attention(*turned, mask.and_(neighborhood), InAttention())[0]
    assert torch.allclose(ours, dense, atol=1e-5)
    for one, other in zip(  # of a sum, the gradient is one number for all
        torch.autograd.grad(ours.sum(), given), torch.autograd.grad(dense.sum(), given), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.bfloat16, 2e-2)])
def test_in_other_precisions(dtype: torch.dtype, near: float) -> None:
    given = [drawn(B, H, 200, K).to(dtype) for _ in range(3)]
    mask = AttentionMask.causal(0, 200, CPU)
    ours = attention_of(40)(*given, mask, InAttention())
    dense = masked_attention(*given, mask.and_(Window(40)), InAttention())[0]
    assert ours.dtype == dtype
    assert torch.allclose(ours, dense, atol=near)


def test_at_its_real_block_size() -> None:
    for mask in (
        AttentionMask.bidirectional(333, CPU),
        AttentionMask.causal(0, 333, CPU),
        AttentionMask.causal(100, 300, CPU),
    ):
        assert_same_as_dense(attention_of(40), Window(40), mask, InAttention())


def test_a_window_larger_than_the_sequence_is_full_attention() -> None:
    given = queries_keys_values(20, 20)
    for mask in (AttentionMask.causal(0, 20, CPU), AttentionMask.bidirectional(20, CPU)):
        ours = attention_of(256)(*given, mask, InAttention())
        assert torch.equal(ours, Fused()(*given, mask, InAttention()))


@pytest.mark.parametrize("position", ["none", "relative"])
def test_nothing_of_the_square_waits_for_the_way_back(position: str) -> None:
    length, place = 4096, PositionSpec.model_validate(position).in_attention(SIZES)
    q, k, v = (drawn(1, H, length, K).requires_grad_() for _ in range(3))
    with saved_sizes() as saved:
        attention_of(16)(q, k, v, AttentionMask.causal(0, length, CPU), place)
    assert max(saved) < length * length / 8


def language_model(size: int, dilation: int = 1, position: str = "rotary") -> Any:
    torch.manual_seed(3)
    attention = {"kind": "window", "size": size, "dilation": dilation}
    given = {"kind": "language-model", **SMALL, "attention": attention, "position": position}
    return ModelSpec.model_validate(given).build(11).eval()


@pytest.mark.parametrize("position", ["rotary", "relative", "alibi"])
@pytest.mark.parametrize(("size", "dilation"), [(3, 1), (6, 2)])
@torch.inference_mode()
def test_word_by_word_says_the_same(
    monkeypatch: pytest.MonkeyPatch, size: int, dilation: int, position: str
) -> None:
    monkeypatch.setattr(window, "ROLLBACK_TOKENS", 2)
    monkeypatch.setattr(window, "BLOCK", 4)
    model = language_model(size, dilation, position)
    ids = torch.randint(11, (B, 40), generator=torch.Generator().manual_seed(0))
    at_once, state = model(ids), model.start()
    heard, state = model.extend(ids[:, :20], state)
    assert torch.allclose(heard, at_once[:, :20], atol=1e-5)
    for step in range(20, 30):
        logits, state = model.step(ids[:, step], state)
        assert torch.allclose(logits, at_once[:, step], atol=1e-5)
        assert state.past[0].keys.size(2) == size + 2 + 1
    heard, state = model.extend(ids[:, 30:], state)
    assert torch.allclose(heard, at_once[:, 30:], atol=1e-5)


@torch.inference_mode()
def test_words_can_be_taken_back_as_far_as_the_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "ROLLBACK_TOKENS", 4)
    model = language_model(3)
    ids = torch.randint(11, (B, 30), generator=torch.Generator().manual_seed(1))
    at_once, state = model(ids), model.start()
    for step in range(20):
        _, state = model.step(ids[:, step], state)
    order = torch.tensor([1, 0])
    for back in range(5):
        logits, _ = model.extend(ids[order, 20 - back :], state.reorder(order).truncate(20 - back))
        assert torch.allclose(logits, at_once[order, 20 - back :], atol=1e-5)
    for back in (6, 15):
        with pytest.raises(ConfigError, match="can roll back"):
            model.step(ids[:, 20 - back], state.truncate(20 - back))
    _, early = model.extend(ids[:, :5], model.start())  # nothing is forgotten yet
    logits, _ = model.step(ids[:, 0], early.truncate(0))
    assert torch.allclose(logits, at_once[:, 0], atol=1e-5)


@torch.inference_mode()
def test_guessing_ahead_says_the_same() -> None:
    model, end = language_model(3), 99

    def nothing(*_: Any) -> DraftTokens:
        return DraftTokens([], None)

    plain = list(speculate(model, model.start(), 1, end, 100, nothing))
    guessed = list(speculate(model, model.start(), 1, end, 100, PromptLookup(), count=8))
    assert plain == guessed
    assert len(plain) == 100


def test_what_is_forgotten_is_counted() -> None:
    memory = KVCache(drawn(1, 1, 6, 2), drawn(1, 1, 6, 2)).last(4)
    assert memory.offset == 2
    assert torch.equal(memory.truncate(5).keys, memory.keys[:, :, :3])
    assert memory.append(memory).offset == 2
    assert memory.reorder(torch.tensor([0])).offset == 2


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="sees only itself"):
        validate(AttentionSpec, {"kind": "window", "size": 4, "dilation": 5}, "recipe")
    with pytest.raises(ConfigError, match="greater than 0"):
        validate(AttentionSpec, {"kind": "window", "size": 0}, "recipe")
    spec = ModelSpec.model_validate({"kind": "encoder-decoder", **SMALL, "attention": "window"})
    with pytest.raises(ConfigError, match="'window' cannot attend to another sequence"):
        spec.build(10)


@pytest.mark.usefixtures("small_blocks")
@torch.inference_mode()
def test_whoever_watches_sees_the_window() -> None:
    model = language_model(3)
    ids = torch.randint(11, (B, 20), generator=torch.Generator().manual_seed(2))
    unwatched = model(ids)
    with regard.watch(model) as seen:
        watched = model(ids)
    assert torch.allclose(unwatched, watched, atol=1e-5)
    weights = seen.weights("decoder.blocks.1.attention")
    assert weights.shape == (B, 4, 20, 20)
    visible = AttentionMask.causal(0, 20, CPU).and_(Window(3)).dense
    assert visible is not None
    assert ((weights > 0) == visible).all()
