"""Transformer architectures: sizes, causality, incremental decoding, gradients, tied embeddings."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.attention.base import Attention
from regard.config import kinds
from regard.decoding.greedy import greedy
from regard.engine.torch_model import TorchModel
from regard.errors import ConfigError
from regard.models.base import ModelSpec, parameter_count
from regard.models.encoder_decoder import EncoderDecoder
from regard.positions.base import PositionSpec

V = 30
SMALL = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 64}
POSITIONS = [k for k in kinds("regard.positions") if not PositionSpec.model_validate(k).needs_trees]
EXPERTS = {"kind": "moe", "num_experts": 3, "top_k": 2, "capacity_factor": 0.5, "expert": "gated"}


def build(kind: str, **changes: object) -> nn.Module:
    return ModelSpec.model_validate({"kind": kind, **SMALL, **changes}).build(V).eval()


def words(rows: int, length: int) -> torch.Tensor:
    return torch.randint(4, V, (rows, length))


@pytest.mark.parametrize(("size", "published"), [("base", 65e6), ("big", 213e6)])
def test_named_sizes_match_the_paper(size: str, published: float) -> None:
    """Vaswani et al. 2017, table 3, with a shared vocabulary of 37,000."""
    with torch.device("meta"):
        spec = ModelSpec.model_validate({"kind": "encoder-decoder", "size": size})
        tokens = 37_000
        counted = parameter_count(spec.build(tokens))
    assert counted == {"base": 63_082_496, "big": 214_245_376}[size]
    assert counted == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_language_model_is_causal(position: str, norm_first: bool) -> None:
    model = build("language-model", position=position, norm_first=norm_first)
    vectors = torch.randn(2, 7, 32, requires_grad=True)
    model.decoder.embedding.tokens.forward = lambda _: (
        vectors
    )  # for gradients with respect to the embeddings
    logits = model(words(2, 7))
    for i in range(7):
        (gradient,) = torch.autograd.grad(logits[:, i].square().sum(), vectors, retain_graph=True)
        assert (gradient[:, i + 1 :] == 0).all()
        assert (gradient[:, : i + 1].abs().sum((0, 2)) > 0).all()


@pytest.mark.parametrize("position", POSITIONS)
def test_encoder_decoder_is_causal_and_attends_to_the_whole_source(position: str) -> None:
    model = build("encoder-decoder", position=position, tie_embeddings="output")
    source, target = words(1, 6), words(1, 5)
    source_mask = torch.ones(1, 6, dtype=torch.bool)
    before = model(source, source_mask, target)
    changed = target.clone()
    changed[0, 3] = (changed[0, 3] + 1) % V
    after = model(source, source_mask, changed)
    assert torch.allclose(before[:, :3], after[:, :3], atol=1e-6)
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-3)
    other = source.clone()
    other[0, 5] = (other[0, 5] + 1) % V
    assert not torch.allclose(before[:, 0], model(other, source_mask, target)[:, 0], atol=1e-4)


@pytest.mark.parametrize(
    "part",
    [*({"position": position} for position in POSITIONS), {"feed_forward": EXPERTS}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["encoder-decoder", "language-model"])
def test_incremental_decoding_equals_full_forward(kind: str, part: dict[str, object]) -> None:
    """Greedy decoding with the cache equals decoding with a full forward at each step."""
    model = build(kind, **part)
    source, source_mask = words(3, 6), torch.ones(3, 6, dtype=torch.bool)
    source_mask[0, 4:] = False
    stepper = TorchModel(model)
    has_source = isinstance(model, EncoderDecoder)
    state = stepper.start(*((source.numpy(), source_mask.numpy()) if has_source else ()))
    generated = greedy(stepper, state, np.full(3, 2), end=3, limits=[12] * 3)
    for row in range(3):
        ids = [2]
        while len(ids) <= 12:
            so_far = torch.tensor([ids])
            one = slice(row, row + 1)
            logits = (
                model(source[one], source_mask[one], so_far)
                if isinstance(model, EncoderDecoder)
                else model(so_far)
            )
            chosen = int(logits[0, -1].argmax())
            if chosen == 3:
                break
            ids.append(chosen)
        assert generated[row] == ids[1:]


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=2, max_size=4), extra=st.integers(0, 5))
def test_padding_and_batch_do_not_change_outputs(lengths: list[int], extra: int) -> None:
    torch.manual_seed(3)
    model = build("encoder-decoder", feed_forward=EXPERTS if extra % 2 else "dense")
    rows = [words(1, length)[0] for length in lengths]
    longest = max(lengths) + extra
    source = torch.zeros(len(rows), longest, dtype=torch.long)
    source_mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    for index, row in enumerate(rows):
        source[index, : len(row)], source_mask[index, : len(row)] = row, True
    target = words(len(rows), 5)
    together = model(source, source_mask, target)
    for index, row in enumerate(rows):
        source_mask = torch.ones(1, len(row), dtype=torch.bool)
        alone = model(row[None], source_mask, target[index : index + 1])
        assert torch.allclose(together[index], alone[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder", "language-model"])
@pytest.mark.parametrize("feed_forward", ["dense", "gated", EXPERTS], ids=str)
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_gradients_reach_every_parameter(kind: str, feed_forward: object, norm: str) -> None:
    model = build(kind, feed_forward=feed_forward, norm=norm, position="relative")
    source = torch.arange(V).view(2, 15)
    inputs = {
        "encoder": (source,),
        "language-model": (source,),
        "encoder-decoder": (source, torch.ones(2, 15, dtype=torch.bool), source),
    }[kind]
    outputs = model(*inputs)
    (outputs * torch.randn_like(outputs)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # A bias of the keys adds the same to every score of a query, so softmax cancels it.
        if not name.endswith("w_k.bias"):
            assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(("tie_embeddings", "matrices"), [("all", 1), ("output", 2), ("none", 3)])
def test_tied_embeddings_share_parameters(tie_embeddings: str, matrices: int) -> None:
    model = build("encoder-decoder", tie_embeddings=tie_embeddings)
    sized = [p for p in model.parameters() if tuple(p.shape) == (V, 32)]
    assert len(sized) == matrices


def test_recipe_keys_override_the_named_size() -> None:
    spec = ModelSpec.model_validate({"kind": "encoder", "size": "base", "heads": 16})
    assert spec.heads == 16
    assert spec.dim == 512


@torch.no_grad()
def test_initial_keys_correlate_with_queries() -> None:
    model = ModelSpec.model_validate({"kind": "encoder-decoder", "size": "small"}).build(50)
    for block in model.decoder.blocks:
        assert torch.equal(block.cross.w_k.weight, block.cross.w_q.weight)
    for block in (*model.encoder.blocks, *model.decoder.blocks):
        own = block.attention
        pair = torch.stack([own.w_q.weight.flatten(), own.w_k.weight.flatten()])
        assert float(torch.corrcoef(pair)[0, 1]) == pytest.approx(0.5, abs=0.03)
        assert float(pair[1].var()) == pytest.approx(float(pair[0].var()), rel=0.05)


APART = {"encoder_attention": {"kind": "window", "size": 3}, "attention": "block-local"}


def test_encoder_decoder_and_cross_attention_can_have_different_kinds() -> None:
    model = build("encoder-decoder", **APART, cross_attention="fused")
    assert isinstance(model, EncoderDecoder)
    kinds_used = [
        type(module).__name__ for module in model.modules() if isinstance(module, Attention)
    ]
    assert kinds_used == ["Windowed"] * 2 + ["BlockLocal", "Fused"] * 2
    source, source_mask = words(2, 20), torch.ones(2, 20, dtype=torch.bool)
    source_mask[1, 11:] = False
    target, state = words(2, 6), model.start(source, source_mask)
    one_by_one = []
    for token in target.T:
        logits, state = model.step(token, state)
        one_by_one.append(logits)
    expected = model(source, source_mask, target)
    assert torch.allclose(torch.stack(one_by_one, 1), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "cannot"),
    [
        ({"encoder_attention": {"kind": "linformer", "rank": 8}}, None),
        (
            {"attention": {"kind": "linformer", "rank": 8}},
            "attend causally|decode step by step",
        ),
        (
            {"cross_attention": "window"},
            "attend to another sequence, which a decoder with a source",
        ),
    ],
)
def test_unsupported_attention_kinds_are_refused_for_each_stack(
    changes: dict[str, object], cannot: str | None
) -> None:
    with nullcontext() if cannot is None else pytest.raises(ConfigError, match=cannot):
        build("encoder-decoder", **changes)
