"""Frozen parameters, layer-wise learning rate decay and learning rate multipliers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.config import validate
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.training.config import TrainingSpec
from regard.training.learner import Learner
from regard.training.optim.param_groups import freeze, lr_multipliers, set_learning_rates

MakeLearner = Callable[..., Learner]
OPTIMIZERS = ["muon", "adamw", "adam"]


def built(kind: str, **more: Any) -> nn.Module:
    small = {"dim": 16, "heads": 2, "ffn_dim": 32, "layers": 3, "max_length": 12}
    return ModelSpec.model_validate({"kind": kind, **small, **more}).build(20)


def frozen(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("blocks.1", "encoder.blocks.1."),
        ("encoder.blocks.1", "encoder.blocks.1."),
        ("embedding", "encoder.embedding."),
        ("output.bias", "output.bias"),
    ],
)
def test_a_module_name_matches_all_its_parameters(pattern: str, names: str) -> None:
    model = built("classifier")
    freeze(model, [pattern])
    expected = {name for name, _ in model.named_parameters() if name.startswith(names)}
    assert frozen(model) == expected != set()


def test_a_glob_matches_parameter_names() -> None:
    model = built("classifier", layers=12)
    freeze(model, ["blocks.[01]", "w_q", "*.norm.bias"])
    for name in frozen(model):
        assert ".blocks.0." in name or ".blocks.1." in name or ".w_q." in name or "norm" in name
    assert "encoder.blocks.11.attention.w_q.weight" in frozen(model)
    assert "encoder.blocks.11.attention.w_k.weight" not in frozen(model)


def test_a_shared_parameter_is_frozen_by_any_of_its_names() -> None:
    model = built("encoder-decoder")
    freeze(model, ["decoder.output"])
    assert frozen(model) == {"encoder.embedding.tokens.weight"}


def test_an_unknown_name_is_refused_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match=r"training\.freeze: .* 'embeding'; .* 'embedding'\?"):
        freeze(built("classifier"), ["embeding"])
    with pytest.raises(ConfigError, match=r"training\.freeze: .* 'blocks\.7'.*did you mean 'block"):
        freeze(built("classifier"), ["blocks.7"])
    with pytest.raises(ConfigError, match=r"training\.lr_multipliers: .* 'outputs'; .* 'output'\?"):
        lr_multipliers(built("classifier"), 1.0, {"outputs": 2.0})


def test_freezing_all_parameters_is_refused() -> None:
    with pytest.raises(ConfigError, match="no parameter is left to train"):
        freeze(built("classifier"), ["encoder", "output"])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("pattern", ["0", "bias", "weight"])
def test_frozen_parameters_stay_bit_identical(
    make_learner: MakeLearner, toy: type, optimizer: str, pattern: str
) -> None:
    learner = make_learner(
        freeze=[pattern], optimizer={"kind": optimizer, "weight_decay": 0.1}, ema_decay=0.9
    )
    for parameter in learner.model.parameters():
        parameter.data[0] = -0.0  # adding zero would change its bits
    before = {name: each.clone() for name, each in learner.model.state_dict().items()}
    for step in range(1, 4):
        learner.update([toy().batch(step)], step, progress=0.0)
    with learner.for_evaluation() as model:
        for name, parameter in model.named_parameters():
            same = torch.equal(parameter.view(torch.int32), before[name].view(torch.int32))
            assert same == (name in frozen(model)), name
    assert all(name.split(".")[0] == pattern or pattern in name for name in frozen(learner.model))
    held = {id(p) for p in learner.model.parameters() if not p.requires_grad}
    for each in learner.optimizers:
        assert not held & {id(p) for group in each.param_groups for p in group["params"]}
        assert not held & set(map(id, each.state))


def rates_of(optimizers: list[torch.optim.Optimizer]) -> dict[int, float]:
    return {
        id(p): group["peak"]
        for optimizer in optimizers
        for group in optimizer.param_groups
        for p in group["params"]
    }


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_layer_lr_decay_lowers_the_rate_block_by_block(optimizer: str) -> None:
    model = built("classifier")
    settings = {"kind": optimizer, "learning_rate": 0.01}
    spec = validate(TrainingSpec, {"layer_lr_decay": 0.5, "optimizer": settings}, "recipe")
    optimizers = spec.optimizer.build(model)
    set_learning_rates(optimizers, lr_multipliers(model, spec.layer_lr_decay, {"w_q": 4.0}))
    rates = rates_of(optimizers)
    assert len(rates) == len(list(model.parameters()))
    expected = {"output": 1, "encoder.norm": 1, "blocks.2": 1 / 2, "blocks.1": 1 / 4}
    expected |= {"blocks.0": 1 / 8, "embedding": 1 / 16}
    for name, parameter in model.named_parameters():
        (factor,) = [f for part, f in expected.items() if f".{part}." in f".{name}"]
        times = 4 if ".w_q." in name else 1
        assert rates[id(parameter)] == pytest.approx(0.01 * factor * times), name


def test_layer_lr_decay_counts_from_the_top_of_each_stack() -> None:
    model = built("encoder-decoder", decoder_layers=2, tie_embeddings="none")
    multipliers = {
        name: lr_multipliers(model, 0.1, {}).get(p, 1.0) for name, p in model.named_parameters()
    }
    assert multipliers["encoder.blocks.2.attention.w_q.bias"] == pytest.approx(0.1)
    assert multipliers["decoder.blocks.1.attention.w_q.bias"] == pytest.approx(0.1)
    assert multipliers["decoder.embedding.tokens.weight"] == pytest.approx(1e-3)
    assert multipliers["encoder.embedding.tokens.weight"] == pytest.approx(1e-4)
    assert multipliers["decoder.output.weight"] == 1


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_lr_multipliers_scale_the_update(
    make_learner: MakeLearner, toy: type, optimizer: str
) -> None:
    """The first update of these optimizers has a length that depends on the rate alone."""
    settings = {"optimizer": {"kind": optimizer, "weight_decay": 0.0}, "max_grad_norm": 1e9}
    updates = []
    for multipliers in ({}, {"0.weight": 0.25, "3.*": 2.0}):
        learner = make_learner(lr_multipliers=multipliers, **settings)
        before = [parameter.detach().clone() for parameter in learner.model.parameters()]
        learner.update([toy().batch(1)], 1, progress=0.0)
        updates.append([p.detach() - b for p, b in zip(learner.model.parameters(), before)])  # noqa: B905
    for plain, scaled, factor in zip(*updates, (0.25, 1, 2, 2), strict=True):
        torch.testing.assert_close(scaled, plain * factor, rtol=1e-3, atol=1e-7)


def test_without_multipliers_param_groups_are_not_split() -> None:
    model = built("classifier")
    spec = validate(TrainingSpec, {"optimizer": "adamw"}, "recipe")
    (optimizer,) = spec.optimizer.build(model)
    set_learning_rates([optimizer], lr_multipliers(model, 1.0, {}))
    assert len(optimizer.param_groups) == 2


def test_layer_lr_decay_without_blocks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"training\.layer_lr_decay: this model has no blocks"):
        lr_multipliers(nn.Linear(2, 2), 0.5, {})
