"""A recipe made ready to be examined: its job, a fresh model without dropout, a few real examples.

Every job is asked the same, so here examples are taken apart into what a model reads whole and what
it then writes, and put together again into batches of any make-up. Long ones are cut, each at a
place of its own: an examination is to be quick, and running text, whose windows are all of one
length, is to meet padding too.
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
from regard.layers.feedforward.moe import Experts
from regard.training.config import TrainingSpec
from regard.training.distributed.world import World
from regard.training.learner import Learner
from regard.training.recipe import Recipe
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import BoundTask
from regard.training.trainer import build_learner, prepare_data

EXAMPLES = 64
A_BATCH = 8  # examples from each batch: a batch's own are all of like length
WIDEST = 32  # tokens

B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class Call:
    """What a model is called with: what it reads whole, and the words it writes, if it does."""

    read: tuple[Any, ...]  # ids, where they are real, their trees
    written: Tensor | None = None  # (B, T)
    documents: Tensor | None = None  # (B, T) by number, where none looks out of its own

    def logits(self, model: nn.Module) -> Tensor:
        """(B, T, V) of the word after each that is written; (B, classes) where none is."""
        rest = (each for each in (self.written, self.documents) if each is not None)
        logits: Tensor = model(*self.read, *rest)
        return logits

    def start(self, model: nn.Module) -> Any:
        """The state of decoding before the first word."""
        return model.start(*self.read)  # type: ignore[operator]

    def writing(self, words: Tensor) -> "Call":
        """The first row, reading as before, with each of `words` (N, T) written instead."""
        read = tuple(each[:1].expand(len(words), -1) for each in self.read)
        numbers = self.documents
        return Call(read, words, None if numbers is None else numbers[:1].expand(len(words), -1))


def call_of(batch: Batch) -> Call:
    match batch:
        case PairBatch():
            return Call((batch.source, batch.source_mask), batch.target[:, :-1])
        case TextBatch():
            return Call((), batch.ids[:, :-1])
        case DocumentMaskedBatch():
            return Call((), batch.ids[:, :-1], batch.documents[:, :-1])
        case LabeledBatch() | ParsedBatch():
            return Call(batch.read)
        case MaskedBatch():
            return Call((batch.ids, batch.token_mask))
    raise NotImplementedError(f"how is a model called with a {type(batch).__name__}?")


@dataclass(frozen=True)
class Case:
    """What is examined. Nothing that is done to it may change it."""

    task: BoundTask
    training: TrainingSpec
    world: World
    model: nn.Module
    examples: Sequence[Batch]  # one row each, without padding
    pad_id: int
    unknown: float  # share of the training tokens
    frozen: frozenset[str]  # parameters that are not to learn

    def batch(self, examples: Sequence[Batch]) -> Batch:
        """Examples put together, padded on the right to the longest."""
        return join(examples, self.pad_id)

    def learner(self, training: TrainingSpec | None = None) -> Learner:
        """One that trains a copy of the model."""
        spec = training or self.training
        return Learner(deepcopy(self.model), self.task.loss, spec, self.world)


def make_case(recipe: Recipe, report: Reporter) -> Case:
    """Data and model just as training would have them, less all that is random or smoothed."""
    world = World(device=best_device())
    prepared = prepare_data(recipe, world, report)
    training = recipe.training.model_copy(
        update={"label_smoothing": 0.0, "ema_decay": 0.0, "precision": "float32"}
    )
    exact = recipe.model_copy(update={"training": training})
    task = exact.task.bind(exact, prepared)
    model = build_learner(exact, prepared, task, world, report)[0].model
    for module in model.modules():
        if isinstance(module, Dropout | nn.Dropout):
            module.p = 0.0
        if isinstance(module, Experts):
            module.capacity, module.balance, module.jitter = None, 0.0, 0.0
    drawn = islice(_examples(task), EXAMPLES)
    return Case(
        task=task,
        training=training,
        world=world,
        model=model.eval(),
        examples=[example.to(world.device) for example in drawn],
        pad_id=prepared.tokenizer.pad,
        unknown=prepared.unknown,
        frozen=frozenset(n for n, each in model.named_parameters() if not each.requires_grad),
    )


def _examples(task: BoundTask) -> Iterator[Batch]:
    """A few from each batch in turn, without end."""
    number = 0
    for batch, _ in task.batches(DataCursor()):
        assert isinstance(batch, Batch)
        rows = len(_tensors(batch)[0])
        for row in range(0, rows, -(-rows // A_BATCH)):
            yield alone(batch, row, WIDEST - number % (WIDEST // 2))
            number += 1


def alone(batch: B, row: int, widest: int) -> B:
    """One row of a batch without its padding, `widest` tokens of each side at most."""
    tensors, first = [tensor[row : row + 1] for tensor in _tensors(batch)], 0
    for at, token_mask in enumerate(tensors):
        if token_mask.dtype == torch.bool:  # it tells where those before it are real
            length = min(widest, int(token_mask.sum()))
            tensors[first : at + 1] = [each[:, :length] for each in tensors[first : at + 1]]
            first = at + 1
    return type(batch)(*tensors)


def join(batches: Sequence[B], pad_id: int) -> B:
    """The rows of all these batches as one."""
    columns = zip(*map(_tensors, batches), strict=True)
    return type(batches[0])(*(_stacked(column, pad_id) for column in columns))


def _stacked(tensors: Sequence[Tensor], pad_id: int) -> Tensor:
    if tensors[0].dim() == 1:
        return torch.cat(list(tensors))
    widest = max(tensor.size(1) for tensor in tensors)
    value = 0 if tensors[0].dtype == torch.bool else pad_id
    return torch.cat([F.pad(each, (0, widest - each.size(1)), value=value) for each in tensors])


def _tensors(batch: Batch) -> list[Tensor]:
    return [getattr(batch, field.name) for field in fields(batch)]
