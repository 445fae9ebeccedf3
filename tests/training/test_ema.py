"""The running average of the weights: its recurrence, and its place in the model."""

import pytest
import torch
from torch import nn

from regard.training.ema import EMA


def moved(model: nn.Module, step: int) -> list[torch.Tensor]:
    """The weights after some update."""
    torch.manual_seed(step)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_it_is_its_recurrence() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)).double()
    average = EMA(model, 0.9)
    written_out = [parameter.detach().clone() for parameter in model.parameters()]
    decays = []
    for step in range(1, 120):
        weights = moved(model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        decays.append(decay)
        written_out = [
            decay * old + (1 - decay) * new for old, new in zip(written_out, weights, strict=True)
        ]
        average.update(step)
        for value, wanted in zip(average.values, written_out, strict=True):
            assert torch.allclose(value, wanted, rtol=1e-12, atol=1e-12)
    assert decays[0] < 0.2
    assert decays[-1] == 0.9
    assert decays == sorted(decays)


def test_it_changes_places_with_the_weights_and_back() -> None:
    tied = nn.Embedding(7, 4)
    output = nn.Linear(4, 7, bias=False)
    output.weight = tied.weight
    model = nn.Sequential(tied, output)
    average = EMA(model, 0.5)
    assert len(average.values) == 1
    before = moved(model, 1)
    average.update(1)
    averaged = [value.clone() for value in average.values]
    with average.in_place():
        assert torch.equal(tied.weight, averaged[0])
        assert output.weight is tied.weight
    assert torch.equal(tied.weight, before[0])
    assert torch.equal(average.values[0], averaged[0])


def test_the_weights_come_back_after_an_error() -> None:
    model = nn.Linear(2, 2)
    average = EMA(model, 0.5)
    before = moved(model, 1)
    with pytest.raises(ZeroDivisionError), average.in_place():
        raise ZeroDivisionError
    assert torch.equal(model.weight, before[0])
    assert model.weight.requires_grad
