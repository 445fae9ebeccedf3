"""The recurrent baseline: properties of every cell and every attention score."""

import pytest
import torch
from torch import Tensor, nn

from regard.config import kinds
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel

CELLS = kinds("regard.layers.recurrent")
SCORES = kinds("regard.attention.scores")
V, D = 11, 8

each_cell = pytest.mark.parametrize("cell", CELLS)
each_score = pytest.mark.parametrize("score", SCORES)
each_depth = pytest.mark.parametrize("layers", [1, 2])


def build(capability: str, **settings: object) -> nn.Module:
    torch.manual_seed(0)
    content = {"kind": "recurrent", "capability": capability, "dim": D, "dropout": 0.0, **settings}
    return ModelSpec.model_validate(content).build(V).eval()


def translator(**settings: object) -> EncoderDecoder:
    model = build("seq2seq", **settings)
    assert isinstance(model, EncoderDecoder)
    return model


def language_model(**settings: object) -> LanguageModel:
    model = build("causal-lm", **settings)
    assert isinstance(model, LanguageModel)
    return model


def source_rows() -> tuple[Tensor, Tensor]:
    """Rows of 5, 3 and 1 tokens."""
    torch.manual_seed(1)
    return torch.randint(V, (3, 5)), torch.arange(5) < torch.tensor([[5], [3], [1]])


def target_rows(length: int = 6) -> Tensor:
    torch.manual_seed(2)
    return torch.randint(V, (3, length))


def check_steps(model: nn.Module, start, full: Tensor, targets: Tensor) -> None:
    """Step, extend, truncate and reorder give the same logits as a full forward."""
    state = start
    for at in range(targets.size(1)):
        logits, state = model.step(targets[:, at], state)
        torch.testing.assert_close(logits, full[:, at], atol=1e-5, rtol=1e-5)
    assert state.length == targets.size(1)

    first, early = model.extend(targets[:, :2], start)
    rest, late = model.extend(targets[:, 2:], early)
    torch.testing.assert_close(torch.cat([first, rest], 1), full, atol=1e-5, rtol=1e-5)

    for length in (0, 1, 3):
        again, _ = model.extend(targets[:, length:], late.truncate(length))
        torch.testing.assert_close(again, full[:, length:], atol=1e-5, rtol=1e-5)

    rows = torch.tensor([2, 0, 0])
    moved, state = model.extend(targets[rows, 2:], early.reorder(rows))
    torch.testing.assert_close(moved, full[rows, 2:], atol=1e-5, rtol=1e-5)
    again, _ = model.extend(targets[rows, 1:], state.truncate(1))
    torch.testing.assert_close(again, full[rows, 1:], atol=1e-5, rtol=1e-5)


@each_cell
@each_score
@each_depth
def test_seq2seq_incremental_decoding_equals_teacher_forcing(cell, score, layers):
    model, targets = translator(cell=cell, score=score, layers=layers), target_rows()
    source = source_rows()
    with torch.no_grad():
        check_steps(model, model.start(*source), model(*source, targets), targets)


@each_cell
@each_depth
def test_language_model_incremental_decoding_equals_full_forward(cell, layers):
    model, targets = language_model(cell=cell, layers=layers), target_rows()
    with torch.no_grad():
        check_steps(model, model.start(), model(targets), targets)


@each_cell
@each_score
def test_padding_and_batch_do_not_change_outputs(cell, score):
    model, targets = translator(cell=cell, score=score, layers=2), target_rows()
    source, token_mask = source_rows()
    with torch.no_grad():
        together = model(source, token_mask, targets)
        refilled = model(torch.where(token_mask, source, (source + 1) % V), token_mask, targets)
        torch.testing.assert_close(refilled, together, atol=0, rtol=0)
        for row in range(3):
            row_mask = token_mask[row]
            alone = model(
                source[row : row + 1, row_mask],
                token_mask[row : row + 1, row_mask],
                targets[row][None],
            )
            torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


@each_cell
def test_padding_does_not_change_classifier_logits(cell):
    model = build("sequence-classification", cell=cell, layers=2, classes=3)
    source, token_mask = source_rows()
    with torch.no_grad():
        together = model(source, token_mask)
        assert together.shape == (3, 3)
        for row in range(3):
            row_mask = token_mask[row]
            alone = model(source[row : row + 1, row_mask], token_mask[row : row + 1, row_mask])
            torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


@each_score
def test_recurrent_decoder_is_causal(score):
    model, targets = translator(score=score, layers=2), target_rows()
    source, other = source_rows(), targets.clone()
    other[:, 3] = (other[:, 3] + 1) % V
    with torch.no_grad():
        one, two = model(*source, targets), model(*source, other)
        assert torch.equal(one[:, :3], two[:, :3])
        assert not torch.allclose(one[:, 3:], two[:, 3:])
        model = language_model(layers=2)
        one, two = model(targets), model(other)
        assert torch.equal(one[:, :3], two[:, :3])
        assert not torch.allclose(one[:, 3:], two[:, 3:])


@each_cell
@each_depth
def test_documents_of_a_row_are_independent(cell, layers):
    model, targets = language_model(cell=cell, layers=layers), target_rows(7)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [4, 4, 4, 5, 5, 5, 5], [7, 7, 7, 9, 9, 9, 9]])
    with torch.no_grad():
        alone = torch.cat([model(targets[:, :3]), model(targets[:, 3:])], dim=1)
        torch.testing.assert_close(model(targets, documents), alone, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(model(targets), alone, atol=1e-3)


@each_cell
@each_score
def test_gradients_reach_every_parameter(cell, score):
    models = (
        (
            translator(cell=cell, score=score, layers=2, tie_embeddings=False),
            (*source_rows(), target_rows()),
        ),
        (language_model(cell=cell, layers=2), (target_rows(),)),
        (build("sequence-classification", cell=cell, layers=2), source_rows()),
    )
    for model, inputs in models:
        model(*inputs).square().sum().backward()
        without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert not without


@each_cell
@each_score
def test_products_in_bfloat16_give_about_the_same_logits_and_gradients(cell, score):
    model = translator(cell=cell, score=score, layers=2)
    targets = target_rows()
    exact = model(*source_rows(), targets)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(*source_rows(), targets)
        rounded.float().logsumexp(-1).sum().backward()
    torch.testing.assert_close(rounded.float(), exact, atol=0.05, rtol=0.05)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_tied_embeddings_are_one_parameter():
    tied, free = translator(), translator(tie_embeddings=False)
    assert tied.output.weight is tied.decoder.embedding.tokens.weight
    assert tied.encoder.embedding.tokens is tied.decoder.embedding.tokens
    assert free.output.weight is not free.decoder.embedding.tokens.weight


def test_without_score_there_is_no_source_attention():
    model = translator(score="none")
    assert model.decoder.blocks[0].cross is None
    assert model.start(*source_rows()).source is None


def test_build_without_capability_is_refused():
    with pytest.raises(
        ConfigError, match=r"model\.capability: a recurrent needs one of its capabilities"
    ):
        ModelSpec.model_validate({"kind": "recurrent"}).build(V)


def reversed_tokens(rows: int, length: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Source, decoder input (after 0) and labels: the source reversed."""
    torch.manual_seed(seed)
    source = torch.randint(1, V, (rows, length))
    labels = source.flip(1)
    return source, torch.cat([torch.zeros_like(labels[:, :1]), labels[:, :-1]], 1), labels


def test_recurrent_translator_learns_to_reverse():
    torch.manual_seed(0)
    spec = {"kind": "recurrent", "capability": "seq2seq", "dim": 48, "dropout": 0.0}
    model = ModelSpec.model_validate(spec).build(V)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    row_mask = torch.ones(64, 4, dtype=torch.bool)
    for step in range(100):
        source, inputs, labels = reversed_tokens(64, 4, seed=step)
        loss = nn.functional.cross_entropy(
            model(source, row_mask, inputs).flatten(0, 1), labels.flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source, inputs, labels = reversed_tokens(64, 4, seed=10**6)
    with torch.no_grad():
        correct = model(source, row_mask, inputs).argmax(-1) == labels
    assert correct.float().mean() >= 0.95
