"""Caches of every attention kind: incremental decoding, bounded size, reorder and truncate."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.kv_cache import ROLLBACK_TOKENS, CompressedCache, KVCache
from regard.config import validate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.decoder import DecoderState
from regard.models.language_model import LanguageModel

V, LENGTH = 20, 150
ATTENTIONS: dict[str, Any] = {
    "fused": "fused",
    "linear": "linear",
    "compressed": {"kind": "compressed", "stride": 3},
    "block-local": {"kind": "block-local", "size": 8},
    "window": {"kind": "window", "size": 8},
    "alternating": {
        "kind": "alternating",
        "pattern": [{"kind": "block-local", "size": 8}, "compressed"],
    },
}


def built(kind: str, **more: Any) -> LanguageModel:
    sizes = {"dim": 16, "heads": 4, "ffn_dim": 32, "layers": 2, "dropout": 0.0}
    content = {"kind": "language-model", **sizes, "attention": ATTENTIONS[kind], **more}
    model = validate(ModelSpec, content, "a test").build(V).double().eval()
    assert isinstance(model, LanguageModel)
    return model


def read(model: LanguageModel, ids: Tensor, steps: int) -> tuple[Tensor, DecoderState]:
    """Decode a number of tokens at a time."""
    state, logits = model.start(), []
    for part in ids.split(steps, dim=1):
        part_logits, state = model.extend(part, state)
        logits.append(part_logits)
    return torch.cat(logits, dim=1), state


def cached_positions(cache: Any) -> int:
    """Number of positions in the cache of one layer."""
    if isinstance(cache, CompressedCache):
        return cache.before.size(2) + cache.recent.keys.size(2)
    assert isinstance(cache, KVCache)
    return cache.keys.size(2)


@pytest.mark.parametrize("kind", ATTENTIONS)
@pytest.mark.parametrize("more", [{}, {"position": "rotary", "kv_heads": 2}])
@torch.no_grad()
def test_incremental_decoding_equals_full_forward(kind: str, more: dict[str, Any]) -> None:
    model, ids = built(kind, **more), torch.randint(0, V, (2, LENGTH))
    full = model(ids)
    for steps in (1, 7, 80):
        assert torch.allclose(read(model, ids, steps)[0], full, atol=1e-10)


@pytest.mark.parametrize("kind", ATTENTIONS)
@torch.no_grad()
def test_truncated_and_reordered_caches_decode_correctly(kind: str) -> None:
    model, ids = built(kind), torch.randint(0, V, (3, LENGTH))
    full = model(ids)
    rows = torch.tensor([2, 0, 0, 1])
    for length in (20, 90, LENGTH - 1):
        for back in (1, 5, min(length - 1, ROLLBACK_TOKENS)):
            _, state = read(model, ids[:, : length - back], 5)
            _, state = model.extend(torch.randint(0, V, (3, back)), state)
            state = state.truncate(length - back).reorder(rows)
            assert state.length == length - back
            logits, _ = model.extend(ids[rows, length - back :], state)
            assert torch.allclose(logits, full[rows, length - back :], atol=1e-10)


@torch.no_grad()
def test_cache_size_is_bounded() -> None:
    ids, kinds = torch.randint(0, V, (1, 300)), list(ATTENTIONS)[:-1]
    size = {kind: cached_positions(read(built(kind), ids, 4)[1].past[0]) for kind in kinds}
    assert size["fused"] == 300
    assert size["block-local"] <= 8 + ROLLBACK_TOKENS + 4
    assert size["window"] == 8 + ROLLBACK_TOKENS + 4
    assert size["linear"] <= 4 + ROLLBACK_TOKENS + 4  # the sums are key size by key size + 1
    assert size["compressed"] <= 300 // 3 + ROLLBACK_TOKENS + 3 + 4
    shorter = {
        kind: cached_positions(read(built(kind), ids[:, :200], 4)[1].past[0]) for kind in kinds
    }
    assert [size[kind] - shorter[kind] for kind in ("block-local", "window", "linear")] == [0, 0, 0]
    assert size["compressed"] - shorter["compressed"] <= 100 // 3 + 1


@pytest.mark.parametrize("kind", ["linear", "compressed", "block-local", "window"])
@torch.no_grad()
def test_truncating_beyond_the_cache_is_refused(kind: str) -> None:
    model, ids = built(kind), torch.randint(0, V, (1, 300))
    _, state = read(model, ids, 4)
    with pytest.raises(ConfigError, match=r"roll back .*draft fewer"):
        model.step(ids[:, 0], state.truncate(101))


@pytest.mark.parametrize("kind", ["block-local", "compressed", "linear"])
def test_several_documents_in_a_row_are_refused(kind: str) -> None:
    attention = validate(ModelSpec, {"kind": "encoder", "attention": kind}, "a test").attention
    with pytest.raises(ConfigError, match=f"'{kind}' cannot mask other documents of a row"):
        attention.require(frozenset({"documents"}), "task.document_mask: true")


def test_cross_attention_of_every_supporting_kind() -> None:
    """Source padding does not change outputs; incremental decoding equals a full forward."""
    source, source_mask = (
        torch.randint(0, V, (2, 7)),
        torch.tensor([[True] * 7, [True] * 4 + [False] * 3]),
    )
    target = torch.randint(0, V, (2, 10))
    for attention in ("linear", "compressed"):
        sizes = {"kind": "encoder-decoder", "dim": 16, "ffn_dim": 32, "layers": 2}
        model: Any = validate(ModelSpec, {**sizes, "attention": attention}, "a test").build(V)
        model = model.double().eval()
        full, alone = (
            model(source, source_mask, target),
            model(source[1:, :4], source_mask[1:, :4], target[1:]),
        )
        assert torch.allclose(full[1:], alone, atol=1e-10)
        state, logits = model.start(source, source_mask), []
        for at in range(10):
            step_logits, state = model.step(target[:, at], state)
            logits.append(step_logits)
        assert torch.allclose(torch.stack(logits, 1), full, atol=1e-10)
    for attention in ("block-local", "window", "alternating"):
        with pytest.raises(ConfigError, match="cannot attend to another sequence"):
            validate(ModelSpec, {**sizes, "attention": attention}, "a test").build(V)
