"""Sliding-window attention against dense attention with the same mask, and cached decoding."""

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
from regard.attention.masks import AttentionMask, Causal, Window
from regard.attention.reference import masked_attention
from regard.config import kinds, validate
from regard.decoding.speculative import DraftTokens, PromptLookup, speculate
from regard.engine.torch_model import TorchModel
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.positions.base import InAttention, PositionSpec, Sizes

B, H, K = 2, 2, 4
SIZES = Sizes(H * K, H, K, max_length=64)
CPU = torch.device("cpu")
SMALL = {"dim": 16, "heads": 4, "ffn_dim": 32, "layers": 2, "dropout": 0.0, "max_length": 64}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks small, so that short sequences have several."""
    monkeypatch.setattr(window, "BLOCK", 4)


def attention_of(size: int, dilation: int = 1) -> Attention:
    config = {"kind": "window", "size": size, "dilation": dilation}
    return AttentionSpec.model_validate(config).build(SIZES)


def random_tensor(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def queries_keys_values(queries: int, keys: int) -> list[Tensor]:
    q, k, v = (random_tensor(B, H, length, K) for length in (queries, keys, keys + 1))
    return [x.requires_grad_() for x in (q, k, v[:, :, 1:].clone())]


def assert_same_as_dense(
    attention: Attention, neighborhood: Window, mask: AttentionMask, position: InAttention
) -> None:
    """Compare outputs and all gradients, also those of the position, with the reference."""
    qkv = queries_keys_values(len(mask.queries), len(mask.keys))
    inputs = [*qkv, *position.parameters()]
    outputs = attention(*qkv, mask, position)
    dense = masked_attention(*qkv, mask.and_(neighborhood), position)[0]
    assert torch.allclose(outputs, dense, atol=1e-5)
    grad_output = random_tensor(*outputs.shape)
    for one, other in zip(
        torch.autograd.grad((outputs * grad_output).sum(), inputs, allow_unused=True),
        torch.autograd.grad((dense * grad_output).sum(), inputs, allow_unused=True),
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
def test_equals_dense_attention_with_the_same_mask(
    length: int,
    size: int,
    dilation: int,
    causal: bool,
    past: int,
    block: int,
    tile: int,
    compiled: bool,
) -> None:
    """The compiled kernel and the torch fallback are tested."""
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
def test_position_encodings_use_positions_in_the_sequence(
    position: str, causal: bool, dilation: int
) -> None:
    spec = PositionSpec.model_validate(position)
    encoding = spec.in_attention(SIZES)
    mask = AttentionMask.causal(3, 22, CPU) if causal else AttentionMask.bidirectional(25, CPU)
    assert_same_as_dense(attention_of(4, dilation), Window(4, dilation), mask, encoding)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("compiled", [True, False])
def test_padding_and_documents_are_masked(
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
def test_transposed_inputs() -> None:
    qkv = [random_tensor(B, H, K, 21).requires_grad_() for _ in range(3)]
    mask, neighborhood = AttentionMask.causal(0, 21, CPU), Window(4)
    transposed = [x.transpose(2, 3) for x in qkv]
    outputs = attention_of(4)(*transposed, mask, InAttention())
    dense = masked_attention(*transposed, mask.and_(neighborhood), InAttention())[0]
    assert torch.allclose(outputs, dense, atol=1e-5)
    for one, other in zip(  # the gradient of a sum is expanded, with strides of 0
        torch.autograd.grad(outputs.sum(), qkv), torch.autograd.grad(dense.sum(), qkv), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 2e-2)])
def test_float64_and_bfloat16(dtype: torch.dtype, tolerance: float) -> None:
    qkv = [random_tensor(B, H, 200, K).to(dtype) for _ in range(3)]
    mask = AttentionMask.causal(0, 200, CPU)
    outputs = attention_of(40)(*qkv, mask, InAttention())
    dense = masked_attention(*qkv, mask.and_(Window(40)), InAttention())[0]
    assert outputs.dtype == dtype
    assert torch.allclose(outputs, dense, atol=tolerance)


def test_default_block_size() -> None:
    for mask in (
        AttentionMask.bidirectional(333, CPU),
        AttentionMask.causal(0, 333, CPU),
        AttentionMask.causal(100, 300, CPU),
    ):
        assert_same_as_dense(attention_of(40), Window(40), mask, InAttention())


def test_window_larger_than_the_sequence_is_full_attention() -> None:
    qkv = queries_keys_values(20, 20)
    for mask in (AttentionMask.causal(0, 20, CPU), AttentionMask.bidirectional(20, CPU)):
        outputs = attention_of(256)(*qkv, mask, InAttention())
        assert torch.equal(outputs, Fused()(*qkv, mask, InAttention()))


@pytest.mark.parametrize("position", ["none", "relative"])
def test_no_quadratic_tensor_is_saved_for_backward(position: str) -> None:
    length, encoding = 4096, PositionSpec.model_validate(position).in_attention(SIZES)
    q, k, v = (random_tensor(1, H, length, K).requires_grad_() for _ in range(3))
    with saved_sizes() as saved:
        attention_of(16)(q, k, v, AttentionMask.causal(0, length, CPU), encoding)
    assert max(saved) < length * length / 8


def language_model(size: int, dilation: int = 1, position: str = "rotary") -> Any:
    torch.manual_seed(3)
    attention = {"kind": "window", "size": size, "dilation": dilation}
    config = {"kind": "language-model", **SMALL, "attention": attention, "position": position}
    return ModelSpec.model_validate(config).build(11).eval()


@pytest.mark.parametrize("position", ["rotary", "relative", "alibi"])
@pytest.mark.parametrize(("size", "dilation"), [(3, 1), (6, 2)])
@torch.inference_mode()
def test_cached_decoding_equals_uncached(
    monkeypatch: pytest.MonkeyPatch, size: int, dilation: int, position: str
) -> None:
    monkeypatch.setattr(window, "ROLLBACK_TOKENS", 2)
    monkeypatch.setattr(window, "BLOCK", 4)
    model = language_model(size, dilation, position)
    ids = torch.randint(11, (B, 40), generator=torch.Generator().manual_seed(0))
    uncached, state = model(ids), model.start()
    logits, state = model.extend(ids[:, :20], state)
    assert torch.allclose(logits, uncached[:, :20], atol=1e-5)
    for step in range(20, 30):
        logits, state = model.step(ids[:, step], state)
        assert torch.allclose(logits, uncached[:, step], atol=1e-5)
        assert state.past[0].keys.size(2) == size + 2 + 1
    logits, state = model.extend(ids[:, 30:], state)
    assert torch.allclose(logits, uncached[:, 30:], atol=1e-5)


@torch.inference_mode()
def test_cache_rolls_back_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "ROLLBACK_TOKENS", 4)
    model = language_model(3)
    ids = torch.randint(11, (B, 30), generator=torch.Generator().manual_seed(1))
    uncached, state = model(ids), model.start()
    for step in range(20):
        _, state = model.step(ids[:, step], state)
    order = torch.tensor([1, 0])
    for back in range(5):
        logits, _ = model.extend(ids[order, 20 - back :], state.reorder(order).truncate(20 - back))
        assert torch.allclose(logits, uncached[order, 20 - back :], atol=1e-5)
    for back in (6, 15):
        with pytest.raises(ConfigError, match="can roll back"):
            model.step(ids[:, 20 - back], state.truncate(20 - back))
    _, early = model.extend(ids[:, :5], model.start())  # nothing is evicted yet
    logits, _ = model.step(ids[:, 0], early.truncate(0))
    assert torch.allclose(logits, uncached[:, 0], atol=1e-5)


@torch.inference_mode()
def test_speculative_decoding_gives_the_greedy_tokens() -> None:
    model, end = TorchModel(language_model(3)), 99

    def nothing(*_: Any) -> DraftTokens:
        return DraftTokens([], None)

    plain = list(speculate(model, model.start(), 1, end, 100, nothing))
    speculated = list(speculate(model, model.start(), 1, end, 100, PromptLookup(), count=8))
    assert plain == speculated
    assert len(plain) == 100


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="attends only to itself"):
        validate(AttentionSpec, {"kind": "window", "size": 4, "dilation": 5}, "recipe")
    with pytest.raises(ConfigError, match="greater than 0"):
        validate(AttentionSpec, {"kind": "window", "size": 0}, "recipe")
    spec = ModelSpec.model_validate({"kind": "encoder-decoder", **SMALL, "attention": "window"})
    with pytest.raises(ConfigError, match="'window' cannot attend to another sequence"):
        spec.build(10)


@pytest.mark.usefixtures("small_blocks")
@torch.inference_mode()
def test_recorded_weights_are_inside_the_window() -> None:
    model = language_model(3)
    ids = torch.randint(11, (B, 20), generator=torch.Generator().manual_seed(2))
    outputs = model(ids)
    with regard.watch(model) as seen:
        recorded_outputs = model(ids)
    assert torch.allclose(outputs, recorded_outputs, atol=1e-5)
    weights = seen.weights("decoder.blocks.1.attention")
    assert weights.shape == (B, 4, 20, 20)
    may_attend = AttentionMask.causal(0, 20, CPU).and_(Window(3)).dense
    assert may_attend is not None
    assert ((weights > 0) == may_attend).all()
