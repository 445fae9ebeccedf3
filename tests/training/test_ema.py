"""The exponential moving average of the weights: its recurrence, and its use in the model."""

import pytest
import torch
from torch import nn

from regard.training.ema import EMA


def randomly_updated(model: nn.Module, step: int) -> list[torch.Tensor]:
    """Add noise to the weights and return them."""
    torch.manual_seed(step)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_ema_matches_its_recurrence() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)).double()
    average = EMA(model, 0.9)
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    decays = []
    for step in range(1, 120):
        weights = randomly_updated(model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        decays.append(decay)
        expected = [
            decay * old + (1 - decay) * new for old, new in zip(expected, weights, strict=True)
        ]
        average.update(step)
        for value, expected_value in zip(average.values, expected, strict=True):
            assert torch.allclose(value, expected_value, rtol=1e-12, atol=1e-12)
    assert decays[0] < 0.2
    assert decays[-1] == 0.9
    assert decays == sorted(decays)


def test_ema_weights_are_swapped_in_and_back() -> None:
    tied = nn.Embedding(7, 4)
    output = nn.Linear(4, 7, bias=False)
    output.weight = tied.weight
    model = nn.Sequential(tied, output)
    average = EMA(model, 0.5)
    assert len(average.values) == 1
    before = randomly_updated(model, 1)
    average.update(1)
    averaged = [value.clone() for value in average.values]
    with average.in_place():
        assert torch.equal(tied.weight, averaged[0])
        assert output.weight is tied.weight
    assert torch.equal(tied.weight, before[0])
    assert torch.equal(average.values[0], averaged[0])


def test_weights_are_restored_after_an_error() -> None:
    model = nn.Linear(2, 2)
    average = EMA(model, 0.5)
    before = randomly_updated(model, 1)
    with pytest.raises(ZeroDivisionError), average.in_place():
        raise ZeroDivisionError
    assert torch.equal(model.weight, before[0])
    assert model.weight.requires_grad
