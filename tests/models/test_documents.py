"""Documents packed into one row do not influence each other."""

import pytest
import torch
from torch import Tensor

from regard.config import kinds, validate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.models.language_model import LanguageModel
from regard.positions.base import PositionSpec
from regard.training.recipe import make_recipe

V = 30
LENGTHS = (3, 1, 6, 2)  # of the documents of a row
SIZES = {"dim": 16, "heads": 4, "ffn_dim": 32, "layers": 2, "dropout": 0.0, "max_length": 12}
POSITIONS = [k for k in kinds("regard.positions") if not PositionSpec.model_validate(k).needs_trees]
ATTENTIONS = ["fused", "reference"]


def built(position: str, attention: str) -> LanguageModel:
    content = {"kind": "language-model", **SIZES, "position": position, "attention": attention}
    model = validate(ModelSpec, content, "a test").build(V).eval()
    assert isinstance(model, LanguageModel)
    return model


def rows() -> tuple[Tensor, Tensor]:
    """Two rows with document boundaries at different positions."""
    ids = torch.randint(0, V, (2, sum(LENGTHS)))
    orders = (LENGTHS, LENGTHS[::-1])
    numbers = [
        [number for number, length in enumerate(order) for _ in range(length)] for order in orders
    ]
    return ids, torch.tensor(numbers)


def alone(model: LanguageModel, ids: Tensor, documents: Tensor) -> Tensor:
    """Logits of each document alone."""
    logits = [
        torch.cat([model(row[here == number][None])[0] for number in here.unique().tolist()])
        for row, here in zip(ids, documents, strict=True)
    ]
    return torch.stack(logits)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_document_in_a_row_has_the_outputs_of_a_single_document(
    position: str, attention: str
) -> None:
    model, (ids, documents) = built(position, attention), rows()
    packed, apart = model(ids, documents), alone(model, ids, documents)
    assert torch.allclose(packed, apart, atol=1e-5)
    toward = torch.randn_like(packed)
    parameters = dict(model.named_parameters())
    ours = torch.autograd.grad((packed * toward).sum(), parameters.values(), allow_unused=True)
    theirs = torch.autograd.grad((apart * toward).sum(), parameters.values(), allow_unused=True)
    for name, one, other in zip(parameters, ours, theirs, strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            assert torch.allclose(one, other, atol=1e-4, rtol=1e-4), name


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_no_gradient_across_document_boundaries(position: str, attention: str) -> None:
    """Changing a token changes the logits of its own document from there on, and no others."""
    model, (ids, documents) = built(position, attention), rows()
    with torch.no_grad():
        before = model(ids, documents)
        for index in range(ids.size(1)):
            changed = ids.clone()
            changed[:, index] = (changed[:, index] + 1) % V
            moved = (model(changed, documents) - before).abs().amax(-1) > 1e-6
            later = torch.arange(ids.size(1)) >= index
            assert torch.equal(moved, later & (documents == documents[:, index, None]))


def test_one_document_equals_a_row_without_documents() -> None:
    model, (ids, documents) = built("learned", "fused"), rows()
    assert torch.allclose(model(ids, torch.zeros_like(documents)), model(ids), atol=1e-6)
    assert not torch.allclose(model(ids, documents), model(ids), atol=1e-3)


def test_attention_without_document_support_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from regard.attention import reference

    monkeypatch.setattr(reference.Spec, "supports", reference.Spec.supports - {"documents"})
    content = {
        "task": {"kind": "language-model", "document_mask": True},
        "data": {"train": {"kind": "text", "path": "nowhere.txt"}},
        "model": {"kind": "language-model", "attention": "reference"},
    }
    with pytest.raises(ConfigError, match="'reference' cannot mask other documents of a row"):
        make_recipe(content, (), "recipe")
    make_recipe(content, ("task.document_mask=false",), "recipe")
    with pytest.raises(ConfigError, match=r"task.document_mask: input should be a valid boolean"):
        make_recipe(content, ("task.document_mask=aside",), "recipe")
