"""The named size of a Transformer that fits the data and the duration of a recipe.

A size fits if training sees every token MIN_EPOCHS times, or TOKENS_PER_PARAMETER tokens for each
parameter (Hoffmann et al. 2022), whichever is less. `size: auto` is the largest size that fits and
has at most PARAMETERS_PER_TOKEN parameters for each training token: a larger one memorizes them.
"""

import math
from collections.abc import Iterable
from typing import Any

from torch import nn

from regard.models.meta import on_meta
from regard.models.transformer import AUTO, SIZES, TransformerSpec
from regard.training.recipe import Recipe
from regard.training.reporting.log_lines import duration

MIN_EPOCHS, TOKENS_PER_PARAMETER, PARAMETERS_PER_TOKEN = 2, 20, 10
# FLOP/s of a laptop's processor. Not measured: the choice must not depend on the machine.
NOMINAL_SPEED = 1e11
SIZE_KEYS = frozenset({"size"}.union(*SIZES.values()))


def has_auto_size(recipe: Recipe) -> bool:
    """Return whether the size of the model is to be chosen."""
    return isinstance(recipe.model, TransformerSpec) and recipe.model.size == AUTO


def with_chosen_size(recipe: Recipe, vocabulary: int, tokens_per_epoch: int) -> Recipe:
    """Return the recipe with the size that fits, a function of its data and duration alone."""
    model = recipe.model
    assert isinstance(model, TransformerSpec)
    settings = {name: getattr(model, name) for name in model.model_fields_set}
    models = [type(model).model_validate({**settings, "size": size}) for size in SIZES]
    fitting = [
        model
        for model in models
        if (count := multiplied_parameters(recipe, model, vocabulary))
        <= PARAMETERS_PER_TOKEN * tokens_per_epoch
        and _seen_tokens(recipe, count) >= _needed_tokens(count, tokens_per_epoch)
    ]
    return recipe.model_copy(update={"model": fitting[-1] if fitting else models[0]})


def nominal_epochs(recipe: Recipe, vocabulary: int, tokens_per_epoch: int) -> float:
    """Return the number of passes over the data that training makes, at nominal speed."""
    parameters = multiplied_parameters(recipe, recipe.model, vocabulary)
    return _seen_tokens(recipe, parameters) / tokens_per_epoch


def advice(
    recipe: Recipe, vocabulary: int, tokens_per_epoch: int, steps: float, epochs: float
) -> str | None:
    """Return what to change if a budget of time gives too few passes over the data, else None.

    `steps` and `epochs` are those that the budget gives on this machine.
    """
    budget = recipe.training.budget
    count = multiplied_parameters(recipe, recipe.model, vocabulary)
    seen, needed = epochs * tokens_per_epoch, _needed_tokens(count, tokens_per_epoch)
    if budget is None or seen >= needed:
        return None
    longer = f"training.budget={math.ceil(budget * needed / seen / 60)}min"
    smaller = [
        f"model.size={model.size}, or "
        for model in _smaller_models(recipe.model)
        if (other := multiplied_parameters(recipe, model, vocabulary)) < count
        and seen * count / other >= _needed_tokens(other, tokens_per_epoch)
    ]
    return (
        f"{steps:,.0f} steps in {duration(budget)} are {epochs:.1g} passes over the training data, "
        f"few for this model; choose {smaller[-1] if smaller else ''}{longer}."
    )


def multiplied_parameters(recipe: Recipe, model: Any, vocabulary: int) -> int:
    """Number of parameters of matrix products; an embedding is a table, unless tied to one."""
    with on_meta():
        built = model.for_capability(recipe.task.requires).build(vocabulary)
    modules = (module for module in built.modules() if not isinstance(module, nn.Embedding))
    return _total(parameter for module in modules for parameter in module.parameters(False))


def _total(parameters: Iterable[nn.Parameter]) -> int:
    return sum({id(parameter): parameter.numel() for parameter in parameters}.values())


def _needed_tokens(parameters: int, tokens_per_epoch: int) -> int:
    return min(MIN_EPOCHS * tokens_per_epoch, TOKENS_PER_PARAMETER * parameters)


def _seen_tokens(recipe: Recipe, parameters: int) -> float:
    """Number of tokens that training sees, at nominal speed if it has a budget of time."""
    training = recipe.training
    if training.steps is not None:
        return training.steps * training.batch_tokens * training.grad_accumulation
    assert training.budget is not None
    # A token of a pair goes through the encoder or the decoder.
    stacks = 2 if recipe.task.requires == "seq2seq" and not recipe.model.single_sequence else 1
    return training.budget * NOMINAL_SPEED / (6 * parameters / stacks)


def _smaller_models(model: Any) -> list[TransformerSpec]:
    """Return the model in each named size, smallest first; none if its kind has no sizes."""
    if not isinstance(model, TransformerSpec) or model.retained_heads:
        return []
    names = [name for name in type(model).model_fields if name not in SIZE_KEYS]
    rest = {name: getattr(model, name) for name in names}
    return [type(model).model_validate({**rest, "size": size}) for size in SIZES]
