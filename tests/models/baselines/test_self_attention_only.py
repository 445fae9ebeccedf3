"""The self-attention-only baseline: its equation and its parameters."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.soft_lookup import self_attention
from regard.insight.watch import watch
from regard.models.base import ModelSpec, parameter_count

V, D = 30, 16
CAUSAL_LM, CLASSIFICATION = "causal-lm", "sequence-classification"


def build(capability: str, **changes: Any) -> Any:
    torch.manual_seed(5)
    content = {
        "kind": "self-attention-only",
        "capability": capability,
        "dim": D,
        "layers": 2,
        "dropout": 0,
        **changes,
    }
    model = ModelSpec.model_validate(content).build(V).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "tokens" in name:
                parameter.mul_(2.5)  # so that attention is not uniform
    return model


def words(rows: int, length: int) -> Tensor:
    return torch.randint(0, V, (rows, length), generator=torch.Generator().manual_seed(length))


def token_mask(ids: Tensor) -> Tensor:
    return torch.ones_like(ids, dtype=torch.bool)


@torch.no_grad()
def test_classifier_equals_the_equation() -> None:
    model, ids = build(CLASSIFICATION, classes=3), words(2, 7)
    x = model.encoder.embedding.tokens(ids)
    expected = model.output(self_attention(self_attention(x)).mean(1))
    assert torch.allclose(model(ids, token_mask(ids)), expected, atol=1e-6)


@torch.no_grad()
def test_language_model_equals_the_causal_equation() -> None:
    model, ids = build(CAUSAL_LM, tie_embeddings=True), words(2, 7)
    x, back = model.decoder.embedding.tokens(ids), torch.ones(7, 7, dtype=torch.bool).tril()
    states = self_attention(self_attention(x, back), back)
    assert torch.allclose(model.states(ids), states, atol=1e-6)
    assert torch.allclose(model(ids), states @ model.decoder.embedding.tokens.weight.T, atol=1e-5)


@torch.no_grad()
def test_token_order_does_not_change_outputs() -> None:
    model, ids = build(CLASSIFICATION), words(2, 7)
    order = torch.randperm(7)
    states = model.encoder(ids)
    assert torch.allclose(model.encoder(ids[:, order]), states[:, order], atol=1e-6)
    assert torch.allclose(
        model(ids[:, order], token_mask(ids)), model(ids, token_mask(ids)), atol=1e-6
    )


def test_only_embedding_and_output_have_parameters() -> None:
    assert {n for n, _ in build(CLASSIFICATION).named_parameters()} == {
        "encoder.embedding.tokens.weight",
        "output.weight",
        "output.bias",
    }
    tied = build(CAUSAL_LM, tie_embeddings=True)
    assert [n for n, _ in tied.named_parameters()] == ["decoder.embedding.tokens.weight"]
    assert parameter_count(build(CAUSAL_LM)) == 2 * V * D


@pytest.mark.parametrize(
    ("capability", "stack"), [(CAUSAL_LM, "decoder"), (CLASSIFICATION, "encoder")]
)
def test_watch_shows_queries_equal_to_inputs(capability: str, stack: str) -> None:
    model, ids = build(capability), words(2, 6)
    inputs = (ids,) if capability == CAUSAL_LM else (ids, token_mask(ids))
    with torch.no_grad(), watch(model) as seen:
        watched = model(*inputs)
    assert torch.allclose(watched, model(*inputs), atol=1e-6)
    names = [f"{stack}.blocks.{layer}.attention" for layer in range(2)]
    assert seen.names() == names
    x = seen.last(f"{stack}.embedding", "residual")
    for layer, name in enumerate(names):
        for point in ("queries", "keys", "values"):
            assert torch.equal(seen.last(name, point)[:, 0], x)
        scores = x @ x.transpose(1, 2)
        if capability == CAUSAL_LM:
            scores = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
        assert torch.allclose(seen.weights(name)[:, 0], scores.softmax(-1), atol=1e-6)
        x = seen.last(f"{stack}.blocks.{layer}", "residual")


@torch.no_grad()
def test_step_extend_truncate_and_reorder_equal_full_forward() -> None:
    model, ids = build(CAUSAL_LM), words(3, 9)
    full = model(ids)
    logits, state = model.step(ids[:, 0], model.start())
    assert torch.allclose(logits, full[:, 0], atol=1e-5)
    logits, state = model.extend(ids[:, 1:6], state)
    assert torch.allclose(logits, full[:, 1:6], atol=1e-5)
    order = torch.tensor([2, 0, 0, 1])
    logits, _ = model.step(ids[order, 4], state.reorder(order).truncate(4))
    assert torch.allclose(logits, full[order, 4], atol=1e-5)


@torch.no_grad()
def test_padding_other_documents_and_later_tokens_have_no_influence() -> None:
    classifier, language_model, ids = build(CLASSIFICATION), build(CAUSAL_LM), words(1, 8)
    token_mask_row = torch.arange(8)[None] < 5
    assert torch.allclose(
        classifier(ids, token_mask_row), classifier(ids[:, :5], token_mask_row[:, :5]), atol=1e-6
    )
    separate = torch.cat([language_model(ids[:, :3]), language_model(ids[:, 3:])], dim=1)
    assert torch.allclose(language_model(ids, torch.arange(8)[None] // 3 > 0), separate, atol=1e-5)
    assert torch.allclose(language_model(ids)[:, :5], language_model(ids[:, :5]), atol=1e-6)


def test_bag_of_tokens_task_is_learned() -> None:
    model = build(CLASSIFICATION, dim=32).train()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    draw = torch.Generator().manual_seed(1)
    for _ in range(150):
        ids = torch.randint(0, V, (32, 8), generator=draw)
        labels = (ids == 7).any(1).long()
        logits = model(ids, token_mask(ids))
        optimizer.zero_grad()
        F.cross_entropy(logits, labels).backward()
        optimizer.step()
    ids = torch.randint(0, V, (200, 8), generator=draw)
    right = model(ids, token_mask(ids)).argmax(-1) == (ids == 7).any(1)
    assert right.float().mean() > 0.95
