"""Setup of the checks: the recipe's task, a new model without dropout, and a few real examples.

Every task is checked in the same way, so batches are taken apart into rows, as the model's inputs
and the tokens that it generates, and rows are joined to batches of any composition. Long rows are
cut, each at another length: checks must be quick, and windows of running text, which are all of one
length, must be padded in a batch as well.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches.base import Batch
from regard.data.batches.corrupted import MaskedBatch
from regard.data.batches.labeled import LabeledBatch, ParsedBatch
from regard.data.batches.pairs import PairBatch
from regard.data.batches.text import DocumentMaskedBatch, TextBatch
from regard.data.sampling.sampler import DataCursor
from regard.hardware import best_device
from regard.layers.dropout import Dropout
from regard.layers.feedforward.moe import MixtureOfExperts
from regard.training.config import TrainingSpec
from regard.training.distributed.world import World
from regard.training.learner import Learner
from regard.training.recipe import Recipe
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import BoundTask
from regard.training.trainer import build_learner, choose_size, prepare_data

EXAMPLES = 64
EXAMPLES_PER_BATCH = 8  # examples of one batch are all of similar length
MAX_TOKENS = 32  # of an example

B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class ModelInputs:
    """Arguments of a model's forward pass: a source, and target tokens if it generates any."""

    source: tuple[Any, ...]  # ids, token mask, trees
    target: Tensor | None = None  # (B, T)
    documents: Tensor | None = None  # (B, T) number of the document of each token

    def logits(self, model: nn.Module) -> Tensor:
        """Return logits (B, T, V) of the token after each target token, or (B, classes)."""
        rest = (tensor for tensor in (self.target, self.documents) if tensor is not None)
        logits: Tensor = model(*self.source, *rest)
        return logits

    def start(self, model: nn.Module) -> Any:
        """Return the decoding state before the first token."""
        return model.start(*self.source)  # type: ignore[operator]

    def with_target(self, target: Tensor) -> "ModelInputs":
        """Return the first row's source with each row of `target` (N, T)."""
        source = tuple(tensor[:1].expand(len(target), -1) for tensor in self.source)
        documents = self.documents
        if documents is not None:
            documents = documents[:1].expand(len(target), -1)
        return ModelInputs(source, target, documents)


def model_inputs(batch: Batch) -> ModelInputs:
    """Return the arguments that a model is called with for a batch."""
    match batch:
        case PairBatch():
            return ModelInputs((batch.source, batch.source_mask), batch.target[:, :-1])
        case TextBatch():
            return ModelInputs((), batch.ids[:, :-1])
        case DocumentMaskedBatch():
            return ModelInputs((), batch.ids[:, :-1], batch.documents[:, :-1])
        case LabeledBatch() | ParsedBatch():
            return ModelInputs(batch.inputs)
        case MaskedBatch():
            return ModelInputs((batch.ids, batch.token_mask))
    raise NotImplementedError(f"how is a model called with a {type(batch).__name__}?")


@dataclass(frozen=True)
class CheckContext:
    """A recipe's task, model and examples. Checks must not change them."""

    task: BoundTask
    training: TrainingSpec
    world: World
    model: nn.Module
    examples: Sequence[Batch]  # one row each, without padding
    pad_id: int
    unknown: float  # fraction of the training tokens
    frozen: frozenset[str]  # names of parameters that the recipe freezes

    def batch(self, examples: Sequence[Batch]) -> Batch:
        """Return the examples as one batch, padded on the right to the longest."""
        return join(examples, self.pad_id)

    def learner(self, training: TrainingSpec | None = None) -> Learner:
        """Return a learner that trains a copy of the model."""
        spec = training or self.training
        return Learner(deepcopy(self.model), self.task.loss, spec, self.world)


def make_context(recipe: Recipe, report: Reporter) -> CheckContext:
    """Prepare data and model as training does, without dropout, smoothing and other noise."""
    world = World(device=best_device())
    prepared = prepare_data(recipe, world, report)
    recipe = choose_size(recipe, prepared, report)
    training = recipe.training.model_copy(
        update={"label_smoothing": 0.0, "ema_decay": 0.0, "precision": "float32"}
    )
    exact = recipe.model_copy(update={"training": training})
    task = exact.task.bind(exact, prepared)
    model = build_learner(exact, prepared, task, world, report)[0].model
    for module in model.modules():
        if isinstance(module, Dropout | nn.Dropout):
            module.p = 0.0
        if isinstance(module, MixtureOfExperts):
            module.capacity_factor, module.balance_loss, module.jitter = None, 0.0, 0.0
    examples = islice(_examples(task), EXAMPLES)
    return CheckContext(
        task=task,
        training=training,
        world=world,
        model=model.eval(),
        examples=[example.to(world.device) for example in examples],
        pad_id=prepared.tokenizer.pad,
        unknown=prepared.unknown_rate,
        frozen=frozenset(name for name, p in model.named_parameters() if not p.requires_grad),
    )


def longest_repeated(context: CheckContext) -> ModelInputs:
    """Return the longest example, repeated as many times as it has target tokens."""
    inputs = model_inputs(max(context.examples, key=lambda example: example.num_targets))
    if inputs.target is None:
        return inputs
    return inputs.with_target(inputs.target.expand(inputs.target.size(1), -1))


def _examples(task: BoundTask) -> Iterator[Batch]:
    """Yield a few examples of each batch in turn, without end."""
    number = 0
    for batch, _ in task.batches(DataCursor()):
        assert isinstance(batch, Batch)
        rows = len(_tensors(batch)[0])
        for row in range(0, rows, -(-rows // EXAMPLES_PER_BATCH)):
            yield single_row(batch, row, MAX_TOKENS - number % (MAX_TOKENS // 2))
            number += 1


def single_row(batch: B, row: int, max_tokens: int) -> B:
    """Return one row of a batch without its padding, cut to `max_tokens` of each sequence."""
    tensors, first = [tensor[row : row + 1] for tensor in _tensors(batch)], 0
    for index, token_mask in enumerate(tensors):
        if token_mask.dtype == torch.bool:  # the mask of the tensors before it
            length = min(max_tokens, int(token_mask.sum()))
            tensors[first : index + 1] = [t[:, :length] for t in tensors[first : index + 1]]
            first = index + 1
    return type(batch)(*tensors)


def join(batches: Sequence[B], pad_id: int) -> B:
    """Return the rows of all batches as one batch."""
    columns = zip(*map(_tensors, batches), strict=True)
    return type(batches[0])(*(_padded(column, pad_id) for column in columns))


def _padded(tensors: Sequence[Tensor], pad_id: int) -> Tensor:
    if tensors[0].dim() == 1:
        return torch.cat(list(tensors))
    width = max(tensor.size(1) for tensor in tensors)
    value = 0 if tensors[0].dtype == torch.bool else pad_id
    return torch.cat([F.pad(t, (0, width - t.size(1)), value=value) for t in tensors])


def _tensors(batch: Batch) -> list[Tensor]:
    return [getattr(batch, field.name) for field in fields(batch)]
