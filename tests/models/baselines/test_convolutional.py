"""The convolutional baseline: receptive field, caches and parity with torch's convolution."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.base import ModelSpec

V, D = 30, 16
CAUSAL_LM, CLASSIFICATION = "causal-lm", "sequence-classification"


def spec(capability: str, **changes: Any) -> Any:
    content = {
        "kind": "convolutional",
        "capability": capability,
        "dim": D,
        "layers": 2,
        "window": 3,
        "dropout": 0,
    }
    return ModelSpec.model_validate({**content, **changes})


def build(capability: str, **changes: Any) -> Any:
    torch.manual_seed(5)
    return spec(capability, **changes).build(V).eval()


def words(rows: int, length: int) -> Tensor:
    return torch.randint(0, V, (rows, length), generator=torch.Generator().manual_seed(length))


def support(states: Tensor, vectors: Tensor) -> Tensor:
    """(T, T): True if the output at position i depends on the token at position j."""
    rows = [
        torch.autograd.grad(state.square().sum(), vectors, retain_graph=True)[0][0].any(-1)
        for state in states[0]
    ]
    return torch.stack(rows)


@pytest.mark.parametrize(("layers", "window"), [(1, 2), (1, 5), (2, 3), (3, 2), (4, 3)])
def test_receptive_field_of_the_causal_stack(layers: int, window: int) -> None:
    model, settings = (make(CAUSAL_LM, layers=layers, window=window) for make in (build, spec))
    assert settings.reach == layers * (window - 1)
    vectors = torch.randn(1, 14, D, requires_grad=True)
    model.decoder.embedding.tokens.forward = lambda _: vectors
    positions = torch.arange(14)
    back = positions[:, None] - positions
    expected = (back >= 0) & (back <= settings.reach)
    assert torch.equal(support(model.states(words(1, 14)), vectors), expected)


@pytest.mark.parametrize(("layers", "window"), [(1, 3), (2, 3), (1, 7), (2, 5)])
def test_receptive_field_of_the_centered_stack(layers: int, window: int) -> None:
    model, settings = (make(CLASSIFICATION, layers=layers, window=window) for make in (build, spec))
    assert settings.reach == layers * (window - 1) // 2
    vectors = torch.randn(1, 14, D, requires_grad=True)
    model.encoder.embedding.tokens.forward = lambda _: vectors
    positions = torch.arange(14)
    expected = (positions[:, None] - positions).abs() <= settings.reach
    assert torch.equal(support(model.encoder(words(1, 14)), vectors), expected)


def written_out(words: list[Tensor], linear: nn.Linear, near: range) -> list[Tensor]:
    """One layer without its norm, written as loops over positions."""
    weight = linear.weight.view(2 * D, len(near), D)
    answers = []
    for at in range(len(words)):
        total = linear.bias.clone()
        for tap, offset in enumerate(near):
            if 0 <= at + offset < len(words):
                total = total + weight[:, tap] @ words[at + offset]
        answers.append(total[:D] * torch.sigmoid(total[D:]))
    return answers


@pytest.mark.parametrize("capability", [CAUSAL_LM, CLASSIFICATION])
def test_layer_equals_its_equation_and_torch_conv1d(capability: str) -> None:
    from regard.attention.masks import AttentionMask
    from regard.layers.decoder import CachedInput

    model, x = build(capability, window=5), torch.randn(2, 9, D)
    here = torch.device("cpu")
    if capability == CAUSAL_LM:
        block, near, pad = model.decoder.blocks[0], range(-4, 1), (4, 0)
        ours = block(x, CachedInput(None, AttentionMask.causal(0, 9, here)), None)[0]
    else:
        block, near, pad = model.encoder.blocks[0], range(-2, 3), (2, 2)
        ours = block(x, AttentionMask.bidirectional(9, here))
    normed, linear = F.layer_norm(x, (D,)), block.convolution.proj
    loops = [torch.stack(written_out(list(row), linear, near)) for row in normed]
    assert torch.allclose(ours, x + torch.stack(loops), atol=1e-5)
    kernel = linear.weight.view(2 * D, 5, D).transpose(1, 2)
    theirs = F.glu(F.conv1d(F.pad(normed.transpose(1, 2), pad), kernel, linear.bias), dim=1)
    assert torch.allclose(ours, x + theirs.transpose(1, 2), atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    window=st.integers(2, 6), cuts=st.lists(st.integers(1, 4), min_size=1, max_size=4), at=st.data()
)
def test_step_extend_truncate_and_reorder_equal_full_forward(
    window: int, cuts: list[int], at: st.DataObject
) -> None:
    model, ids = build(CAUSAL_LM, window=window), words(3, 1 + sum(cuts))
    with torch.no_grad():
        full = model(ids)
        logits, state = model.step(ids[:, 0], model.start())
        assert torch.allclose(logits, full[:, 0], atol=1e-5)
        for new in cuts:
            begin = state.length
            logits, state = model.extend(ids[:, begin : begin + new], state)
            assert torch.allclose(logits, full[:, begin : begin + new], atol=1e-5)
        length = at.draw(st.integers(0, state.length - 1))
        order = torch.tensor(at.draw(st.lists(st.integers(0, 2), min_size=1, max_size=4)))
        back = state.reorder(order).truncate(length)
        assert back.length == length
        again, back = model.step(ids[order, length], back)
        assert torch.allclose(again, full[order, length], atol=1e-5)
        assert back.length == length + 1


def test_documents_of_a_row_are_independent() -> None:
    model, ids = build(CAUSAL_LM, window=4), words(2, 11)
    documents = torch.tensor([[0] * 3 + [1] + [2] * 7, [4] * 6 + [5] * 5])
    packed = model(ids, documents)
    alone = [
        torch.cat([model(row[its == document][None])[0] for document in its.unique()])
        for row, its in zip(ids, documents, strict=True)
    ]
    assert torch.allclose(packed, torch.stack(alone), atol=1e-5)
    assert not torch.allclose(packed, model(ids), atol=1e-3)


@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=2, max_size=4), extra=st.integers(0, 5))
def test_padding_and_batch_do_not_change_outputs(lengths: list[int], extra: int) -> None:
    model = build(CLASSIFICATION, window=5)
    longest = max(lengths) + extra
    ids = words(len(lengths), longest)
    token_mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    together = model(ids, token_mask)
    for row, length in enumerate(lengths):
        one = ids[row : row + 1, :length]
        assert torch.allclose(
            together[row], model(one, token_mask[row : row + 1, :length])[0], atol=1e-5
        )


@pytest.mark.parametrize("capability", [CAUSAL_LM, CLASSIFICATION])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_gradients_reach_every_parameter(capability: str, norm: str) -> None:
    model, ids = build(capability, norm=norm), torch.arange(V).view(2, 15)
    logits = (
        model(ids) if capability == CAUSAL_LM else model(ids, torch.ones(2, 15, dtype=torch.bool))
    )
    (logits * torch.randn_like(logits)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_only_dependencies_within_the_receptive_field_are_learned() -> None:
    """Copy the token two positions back: needs two layers of window 2, one is not enough."""

    def error(layers: int) -> float:
        model = build(CAUSAL_LM, layers=layers, window=2, dim=32).train()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        draw = torch.Generator().manual_seed(1)
        for _ in range(150):
            ids = torch.randint(0, V, (16, 16), generator=draw)
            logits = model(ids)[:, 2:]
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, :-2].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return float((logits.argmax(-1) != ids[:, :-2]).float().mean())

    assert error(layers=2) < 0.05
    assert error(layers=1) > 0.5


def test_classifier_needs_an_odd_window_and_a_capability() -> None:
    with pytest.raises(ConfigError, match=r"model: window: .* choose 3 or 5, not 4"):
        spec(CAUSAL_LM, window=4).for_capability(CLASSIFICATION)
    without_capability = ModelSpec.model_validate({"kind": "convolutional"})
    with pytest.raises(ConfigError, match="needs one of its capabilities"):
        without_capability.build(V)
