"""The decoder-only model equals a language model over source and target."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.config import kinds
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.engine.torch_model import TorchModel
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.decoder_only import DecoderOnly
from regard.models.language_model import LanguageModel
from regard.models.weights import set_weights, weights_of
from regard.positions.base import PositionSpec

V, START, END = 30, 2, 3
SMALL = {"dim": 32, "heads": 4, "ffn_dim": 64, "layers": 2, "dropout": 0.0, "max_length": 128}
EXPERTS = {"kind": "moe", "num_experts": 3, "top_k": 2, "capacity_factor": 0.5, "expert": "gated"}
MEMORY = {"kind": "alternating", "pattern": [{"kind": "block-local", "size": 8}, "compressed"]}
ATTENTION: list[object] = [
    "fused",
    {"kind": "window", "size": 5},
    {"kind": "block-local", "size": 8},
    "compressed",
    MEMORY,
    "linear",
]
POSITIONS = [k for k in kinds("regard.positions") if not PositionSpec.model_validate(k).needs_trees]
PARTS: list[dict[str, object]] = [
    *({"attention": kind, "position": "sinusoidal"} for kind in ATTENTION),
    {"attention": MEMORY, "feed_forward": EXPERTS},
    *({"position": position} for position in POSITIONS),
]


def build(kind: str = "decoder-only", **changes: object) -> nn.Module:
    return ModelSpec.model_validate({"kind": kind, **SMALL, **changes}).build(V).eval()


def sources(*lengths: int) -> tuple[Tensor, Tensor]:
    """Random tokens, padded on the right, and their mask."""
    source_mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.where(source_mask, torch.randint(4, V, source_mask.shape), 0), source_mask


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_equals_a_language_model_over_source_and_target(part: dict[str, object]) -> None:
    """A row does not depend on the batch or on padding between source and target."""
    model, plain = build(**part), build("language-model", **part)
    assert isinstance(plain, LanguageModel)
    set_weights(plain, weights_of(model), "here")
    source, source_mask = sources(17, 4, 40)
    target = torch.randint(4, V, (3, 9))
    together = model(source, source_mask, target)
    for row, length in enumerate((17, 4, 40)):
        whole = torch.cat([source[row, :length], target[row]])[None]
        alone = plain(whole)[:, length:]
        assert torch.allclose(together[row], alone[0], atol=1e-5)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_incremental_decoding_equals_full_forward(part: dict[str, object]) -> None:
    model = build(**part)
    source, source_mask = sources(11, 3, 11)
    stepper = TorchModel(model)
    state = stepper.start(source.numpy(), source_mask.numpy())
    generated = greedy(stepper, state, np.full(3, START), END, [12] * 3)
    for row in range(3):
        ids = [START]
        while len(ids) <= 12:
            one = slice(row, row + 1)
            chosen = int(model(source[one], source_mask[one], torch.tensor([ids]))[0, -1].argmax())
            if chosen == END:
                break
            ids.append(chosen)
        assert generated[row] == ids[1:]


def test_beam_search_does_not_depend_on_the_batch() -> None:
    model = TorchModel(build(attention=MEMORY))
    source, source_mask = (tensor.numpy() for tensor in sources(11, 3, 8, 3))
    first = np.full(4, START)
    hypotheses = beam_search(model, model.start(source, source_mask), first, END, [10] * 4, 3)
    for row in range(4):
        one = slice(row, row + 1)
        state = model.start(source[one], source_mask[one])
        (alone,) = beam_search(model, state, first[one], END, [10], 3)
        assert [hypothesis.ids for hypothesis in hypotheses[row]] == [
            hypothesis.ids for hypothesis in alone
        ]


def test_states_can_be_truncated_and_reordered() -> None:
    model = build()
    assert isinstance(model, DecoderOnly)
    source, source_mask = sources(6, 2, 6)
    words = torch.randint(4, V, (3, 5))
    rows = torch.tensor([2, 1, 1, 0])
    logits, state = model.extend(words, model.start(source, source_mask))
    again, _ = model.extend(words[rows, 2:], state.truncate(2).reorder(rows))
    assert torch.allclose(again, logits[rows, 2:], atol=1e-5)


def test_tokens_that_are_not_needed_take_no_position() -> None:
    """Learned positions end at max_length: a long source and a long target in two rows fit."""
    model = build(position="learned", max_length=12)
    source, source_mask = sources(9, 2)
    target = torch.randint(4, V, (2, 8))
    counted = torch.arange(8) < torch.tensor([[2], [8]])
    states = model.states(source, source_mask, target, counted)
    alone = model.states(source[:1], source_mask[:1], target[:1, :2])
    assert torch.allclose(states[0, :2], alone[0], atol=1e-5)


def test_gradients_reach_every_parameter() -> None:
    model = build(attention=MEMORY, feed_forward=EXPERTS)
    source = torch.arange(V).view(2, 15)
    logits = model(source, torch.ones(2, 15, dtype=torch.bool), source)
    (logits * torch.randn_like(logits)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith("w_k.bias"):
            assert parameter.grad.abs().sum() > 0, name


def test_attention_without_causal_support_is_refused() -> None:
    with pytest.raises(ConfigError, match="which a decoder needs"):
        build(attention="bigbird")
