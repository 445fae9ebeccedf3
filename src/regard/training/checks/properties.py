"""What can be proven of a recipe before hours are spent on it, on its own model and data.

Each proof measures one number that ought to be zero, or nearly so. All are made in float32, without
dropout and label smoothing, so what they find is the model's own doing and not chance.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.data.batches.base import Batch
from regard.data.batches.text import DocumentMaskedBatch
from regard.decoding.stepper import Stepper
from regard.training.checks.setup import Call, Case, call_of
from regard.training.learner import Learner
from regard.training.optim.schedules import constant
from regard.training.reporting.progress import Reporter
from regard.training.trainer import UNKNOWN_ALARM

EXACT = 1e-6  # what is masked is multiplied by zero, in whatever order
ROUNDING = 1e-4  # sums taken in another order differ by some 1e-6 of the whole; errors by far more
KINKS = 1e-3  # where rounding moves a ReLU across its kink, a piece of the gradient comes or goes
COMPANY = 16  # examples that are put together
BY_HEART, UPDATES, LEARNED = 8, 200, 0.1  # examples, updates at most, nats a prediction
SWIFT = 1e-3  # the lowest rate to learn by heart with


@dataclass(frozen=True)
class Proof:
    """A claim, the number that decides it, and what to do where that is too large."""

    name: str
    measured: str  # what the number is
    found: float | None  # None where the claim does not apply
    limit: float
    hint: str
    unless: str = "this model writes nothing"  # why it would not apply

    @property
    def failed(self) -> bool:
        return self.found is not None and not self.found <= self.limit  # not a number fails, too


def no_look_ahead_in_logits(case: Case) -> Proof:
    return Proof(
        "no word sees those after it",
        "largest change of a logit when a later word changes",
        _future_in_logits(case),
        EXACT,
        "words see what they are to predict, so the loss will be too good to be true: "
        "model.attention or model.position does not heed the causal mask; choose another kind.",
    )


@torch.no_grad()
def _future_in_logits(case: Case) -> float | None:
    """Row t of a batch of equal rows is given another word t; its logits before t must not move."""
    call = _longest_repeated(case)
    if call.written is None:
        return None
    before = call.logits(case.model)
    diagonal = torch.eye(len(before), dtype=torch.bool, device=before.device)
    another = (call.written + 1) % before.size(-1)
    after = call.writing(torch.where(diagonal, another, call.written)).logits(case.model)
    earlier = torch.ones_like(diagonal).tril(-1)  # (row, place), place < row
    return _relative((after - before)[earlier], before)


def no_look_ahead_in_gradients(case: Case) -> Proof:
    return Proof(
        "no gradient comes from later words",
        "largest gradient of a logit by a later word's embedding",
        _future_in_gradients(case),
        EXACT,
        "words learn from what they are to predict: model.attention or model.position does not "
        "heed the causal mask; choose another kind.",
    )


def _future_in_gradients(case: Case) -> float | None:
    """Row t of a batch of equal rows is asked for its logits at t: ∂ logits_t / ∂ x_s, s > t."""
    call = _longest_repeated(case)
    if call.written is None:
        return None
    with _embedding(case.model, call.written) as embedded:
        logits = call.logits(case.model)
    asked = logits.diagonal(dim1=0, dim2=1)  # (V, T)
    (gradient,) = torch.autograd.grad((asked * torch.randn_like(asked)).sum(), embedded)
    later = torch.ones_like(gradient[..., 0], dtype=torch.bool).triu(1)  # (row, place)
    return _relative(gradient[later], gradient)


def _longest_repeated(case: Case) -> Call:
    """The longest example, as many times as it has words to write."""
    call = call_of(max(case.examples, key=lambda example: example.num_targets))
    if call.written is None:
        return call
    return call.writing(call.written.expand(call.written.size(1), -1))


@contextmanager
def _embedding(model: nn.Module, ids: Tensor) -> Iterator[list[Tensor]]:
    """The vectors of just these ids, as the model looks them up within, as leaves of its graph.

    Where source and target are one sequence, they are its end."""
    found: list[Tensor] = []

    def take(_: nn.Module, given: tuple[Any, ...], vectors: Tensor) -> Tensor | None:
        before = given[0].size(1) - ids.size(1)
        if before < 0 or not torch.equal(given[0][:, before:], ids):
            return None
        found.append(vectors[:, before:].detach().requires_grad_())
        return torch.cat([vectors[:, :before], found[-1]], dim=1)

    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    hooks = [table.register_forward_hook(take) for table in tables]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def neighbours_change_nothing(case: Case) -> Proof:
    """Each example alone, among others with padding, and among the same in another order."""
    some = case.examples[:COMPANY]
    alone = [call_of(example).logits(case.model)[0] for example in some]
    together = call_of(case.batch(some)).logits(case.model)
    turned = call_of(case.batch(some[::-1])).logits(case.model).flip(0)
    differences = [
        _relative(among[row, : len(one)] - one, one)
        for among in (together, turned)
        for row, one in enumerate(alone)
    ]
    return Proof(
        "padding and neighbours change nothing",
        f"largest difference of a logit, alone and among {COMPANY}, in two orders",
        _worst(differences),
        ROUNDING,
        "what is said of a sentence depends on the batch it is in: model.attention or "
        "model.position lets padding in; choose another kind.",
    )


def steps_equal_the_whole(case: Case) -> Proof:
    return Proof(
        "word by word equals all at once",
        "largest difference of a logit, cached and not, rows reordered at each word",
        _cached_and_not(case),
        ROUNDING,
        "decoding will not say what training taught: model.attention or model.position does not "
        "go on rightly from cached keys and values; choose another kind.",
    )


@torch.no_grad()
def _cached_and_not(case: Case) -> float | None:
    call = replace(call_of(case.batch(case.examples[:COMPANY])), documents=None)  # one at a time
    if call.written is None:
        return None
    model = cast("Stepper[Any]", case.model)
    whole, state, differences = call.logits(case.model), call.start(case.model), []
    rows = torch.arange(len(whole), device=whole.device)
    turned = rows.flip(0)
    for at in range(call.written.size(1)):
        logits, state = model.step(call.written[rows, at], state)
        differences.append(_relative(logits - whole[rows, at], whole))
        rows, state = rows.flip(0), state.reorder(turned)
    return _worst(differences)


def documents_stay_apart(case: Case) -> Proof:
    return Proof(
        "a document is read as if it were alone",
        "largest difference of a logit, alone and among the documents of its row",
        _alone_and_packed(case),
        ROUNDING,
        "words see other documents than their own: model.attention or model.position does not "
        "heed where documents end; choose another kind.",
        "documents of a row are not apart",
    )


@torch.no_grad()
def _alone_and_packed(case: Case) -> float | None:
    """Neighbours in a row are made documents, wherever borders happen to fall in this text."""
    call = call_of(case.batch(case.examples[:COMPANY]))
    if call.written is None or call.documents is None:
        return None
    length = call.written.size(1)
    border = max(1, length // 3)
    numbers = (torch.arange(length, device=call.written.device) >= border).long()
    packed = replace(call, documents=numbers.expand_as(call.written)).logits(case.model)
    apart = [
        Call((), part).logits(case.model)
        for part in (call.written[:, :border], call.written[:, border:])
    ]
    return _relative(packed - torch.cat(apart, dim=1), packed)


def accumulation_changes_nothing(case: Case) -> Proof:
    """All examples in one batch, and a quarter of them at a time, as the learner adds them up."""
    # By length, so that the quarters differ in tokens: a mean of means would go unnoticed else.
    examples = sorted(case.examples, key=lambda example: example.num_targets)
    size = len(examples) // 4
    quarters = [case.batch(examples[at : at + size]) for at in range(0, len(examples), size)]
    unclipped = case.training.model_copy(update={"max_grad_norm": math.inf})
    one, other = (
        _gradient(case.learner(unclipped), batches)
        for batches in ([case.batch(examples)], quarters)
    )
    return Proof(
        f"1 batch of {len(examples)} equals {len(quarters)} of {size}",
        "distance of the two gradients, as a share of their length",
        float((one - other).norm() / one.norm()),
        KINKS,
        "training.grad_accumulation would change what is learned: the task's loss must be the sum "
        "over the tokens of a batch, not their mean.",
    )


def _gradient(learner: Learner, batches: Sequence[Batch]) -> Tensor:
    """Of one update, all parameters in a row."""
    learner.update(batches, step=1, progress=0.0)
    parameters = learner.model.parameters()
    return torch.cat([each.grad.flatten() for each in parameters if each.grad is not None])


def every_parameter_learns(case: Case) -> Proof:
    """In two updates: half of an adapter gets none before the other half has moved from zero."""
    learner = case.learner()
    parameters = dict(learner.model.named_parameters())
    without = {_one_for_all(name) for name in parameters.keys() - case.frozen}
    for step in (1, 2):
        learner.update([case.batch(case.examples[:COMPANY])], step, progress=0.0)
        moved = (n for n, p in parameters.items() if p.grad is not None and p.grad.any())
        without -= set(map(_one_for_all, moved))
    return Proof(
        "every parameter gets a gradient",
        "parameters without one",
        len(without),
        0,
        f"these will stay as they are: {', '.join(sorted(without))}; they are frozen, or nothing "
        f"that counts in the loss depends on them.",
    )


def _one_for_all(name: str) -> str:
    """Of many experts a few examples ask some; what one of them learns by, all do."""
    return re.sub(r"\.experts\.\d+\.", ".experts.*.", name)


def a_few_can_be_learned_by_heart(case: Case) -> Proof:
    """What cannot even remember will not generalise: the oldest test of all that learns.

    The optimizer is the recipe's and its rate rises as there, but does not fall; a low rate is
    raised, for in so few updates it could not show what it can.
    """
    given, name = case.training, f"{BY_HEART} examples can be learned by heart"
    if not case.task.model().can_overfit:
        cannot = "this kind of model cannot, and is not meant to"
        return Proof(name, "", None, LEARNED, "", cannot)
    rate = max(given.optimizer.rate(), SWIFT)
    learner = case.learner(
        given.model_copy(
            update={
                "optimizer": given.optimizer.model_copy(update={"learning_rate": rate}),
                "schedule": constant.Spec(warmup=min(given.schedule.warmup, UPDATES)),
            }
        )
    )
    batch = case.batch(case.examples[:: len(case.examples) // BY_HEART])
    updates, loss, unknowable = 0, math.inf, _unknowable(batch)
    while updates < UPDATES and loss > LEARNED:
        updates += 1
        loss = learner.update([batch], updates, progress=0.0).loss - unknowable
    beyond = f" beyond the {unknowable:.2g} that none can know" if unknowable else ""
    held = "much of it is frozen: free more of it; or " if case.frozen else ""
    return Proof(
        name,
        f"loss per prediction{beyond} after {updates} updates, learning rate {rate:g}",
        loss,
        LEARNED,
        f"the model does not learn: {held}lower training.optimizer.learning_rate (it is "
        f"{given.optimizer.rate():g}) or raise training.schedule.warmup; a deep model "
        f"may need model.norm_first=true.",
    )


def _unknowable(batch: Batch) -> float:
    """Nats a prediction: documents that begin alike may go on differently, and memory cannot tell
    which of them it is reading. What else is learned from is told apart by its source or place."""
    if not isinstance(batch, DocumentMaskedBatch):
        return 0.0
    after: dict[tuple[int, ...], Counter[int]] = {}
    rows = zip(
        *(each.tolist() for each in (batch.ids, batch.token_mask, batch.documents)), strict=True
    )
    for ids, token_mask, numbers in rows:
        for at in range(1, sum(token_mask)):
            begin = numbers.index(numbers[at - 1])
            after.setdefault(tuple(ids[begin:at]), Counter())[ids[at]] += 1
    nats = sum(
        count * math.log(total / count)
        for words in after.values()
        if (total := words.total()) > 1
        for count in words.values()
    )
    return nats / batch.num_targets


def the_text_is_known(case: Case) -> Proof:
    return Proof(
        "the tokenizer knows the text",
        "share of the training tokens unknown or spelt in bytes",
        case.unknown,
        UNKNOWN_ALARM,
        "is it the right tokenizer, and trained on such text? Raise tokenizer.vocabulary, or let "
        "it be trained on this text.",
    )


PROOFS: tuple[Callable[[Case], Proof], ...] = (
    the_text_is_known,
    no_look_ahead_in_logits,
    no_look_ahead_in_gradients,
    neighbours_change_nothing,
    steps_equal_the_whole,
    documents_stay_apart,
    accumulation_changes_nothing,
    every_parameter_learns,
    a_few_can_be_learned_by_heart,
)


def prove(case: Case, report: Reporter) -> Iterator[Proof]:
    """All of them, one after the other, with a sign of life in between."""
    for proof in PROOFS:
        with report.busy(f"Proving: {proof.__name__.replace('_', ' ')} …"):
            found = proof(case)
        yield found


def _relative(part: Tensor, whole: Tensor) -> float:
    """The largest number of the one as a share of the largest of the other."""
    if not part.numel():
        return 0.0
    tiny = torch.finfo(whole.dtype).tiny
    return float(part.abs().max() / whole.abs().max().clamp_min(tiny))


def _worst(values: Sequence[float]) -> float:
    return float(torch.tensor(values).max())  # which, unlike Python's max, never passes over a NaN
