"""What can be proven of a recipe before hours are spent on it, on its own model and data.

Each proof measures one number that ought to be zero, or nearly so. All are made in float32, without
dropout and label smoothing, so what they find is the model's own doing and not chance.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.cases import Case, call_of
from regard.training.progress import Reporter
from regard.training.train import UNKNOWN_ALARM

ROUNDING = 1e-4  # sums taken in another order differ by some 1e-6 of the whole; errors by far more
EXACT = 1e-6  # what is masked is multiplied by zero, in whatever order
COMPANY = 16  # examples that are put together
BY_HEART, STEPS, LEARNED = 8, 200, 0.1  # examples, updates at most, nats a token


@dataclass(frozen=True)
class Proof:
    """A claim, the number that decides it, and what to do where that is too large."""

    name: str
    measured: str  # what the number is
    found: float | None  # None where the claim does not apply
    limit: float
    hint: str

    @property
    def failed(self) -> bool:
        return self.found is not None and not self.found <= self.limit  # not a number fails, too


def no_look_ahead_in_logits(case: Case) -> Proof:
    """Row t of a batch of equal rows has another word at t; its logits before t must not move."""
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
    call = call_of(max(case.examples, key=lambda example: example.tokens))
    if call.written is None:
        return None
    length = call.written.size(1)
    same = call.writing(call.written.expand(length, -1))
    before = same.logits(case.model)
    other = (call.written + 1) % before.size(-1)
    at = torch.eye(length, dtype=torch.bool, device=other.device)
    after = same.writing(torch.where(at, other, call.written)).logits(case.model)
    earlier = torch.ones_like(at).tril(-1)  # (changed word, place)
    return _largest((after - before)[earlier]) / _largest(before)


def no_look_ahead_in_gradients(case: Case) -> Proof:
    """∂ logits_t / ∂ embedding_s = 0 for all s > t."""
    return Proof(
        "no gradient comes from later words",
        "largest gradient of a logit by a later word's embedding",
        _future_in_gradients(case),
        EXACT,
        "words learn from what they are to predict: model.attention or model.position does not "
        "heed the causal mask; choose another kind.",
    )


def _future_in_gradients(case: Case) -> float | None:
    call = call_of(max(case.examples, key=lambda example: example.tokens))
    if call.written is None:
        return None
    length = call.written.size(1)
    same = call.writing(call.written.expand(length, -1))
    with _embedding(case.model, same.written) as embedded:
        logits = same.logits(case.model)
    places = torch.arange(length)
    asked = logits[places, places]  # row t is asked for its logits at t alone
    (gradient,) = torch.autograd.grad((asked * torch.randn_like(asked)).sum(), embedded)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    return _largest(gradient[later]) / _largest(gradient)


@contextmanager
def _embedding(model: nn.Module, ids: Tensor | None) -> Iterator[list[Tensor]]:
    """The vectors of just these ids, as the model looks them up within, as leaves of its graph."""
    found: list[Tensor] = []

    def take(_: nn.Module, given: tuple[Any, ...], vectors: Tensor) -> Tensor | None:
        if ids is None or not torch.equal(given[0], ids):
            return None
        found.append(vectors.detach().requires_grad_())
        return found[-1]

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
    found = max(
        _apart(one, among[row, : len(one)])
        for among in (together, turned)
        for row, one in enumerate(alone)
    )
    return Proof(
        "padding and neighbours change nothing",
        f"largest difference of a logit, alone and among {COMPANY}, in two orders",
        found,
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
    call = call_of(case.batch(case.examples[:COMPANY]))
    if call.written is None:
        return None
    whole, state, worst = call.logits(case.model), call.start(case.model), 0.0
    rows = torch.arange(len(whole), device=whole.device)
    turned = rows.flip(0)
    for at in range(call.written.size(1)):
        logits, state = case.model.step(call.written[rows, at], state)  # type: ignore[operator]
        worst = max(worst, _apart(whole[rows, at], logits))
        rows, state = rows.flip(0), state.reorder(turned)
    return worst


def accumulation_changes_nothing(case: Case) -> Proof:
    """One batch of all examples and a quarter of them at a time, as the learner adds them up."""
    examples, quarter = case.examples, len(case.examples) // 4
    quarters = [examples[at : at + quarter] for at in range(0, len(examples), quarter)]
    whole, parts = (case.learner(clip=math.inf) for _ in range(2))
    whole.update([case.batch(examples)], step=1, progress=0.0)
    parts.update([case.batch(each) for each in quarters], step=1, progress=0.0)
    one, other = _gradient(whole.model), _gradient(parts.model)
    return Proof(
        f"1 batch of {len(examples)} equals {len(quarters)} of {quarter}",
        "distance of the two gradients, of their length",
        float((one - other).norm() / one.norm()),
        ROUNDING,
        "training.accumulate would change what is learned: the job's loss must be the sum over the "
        "tokens of a batch, not their mean.",
    )


def every_parameter_learns(case: Case) -> Proof:
    learner = case.learner()
    learner.update([case.batch(case.examples[:COMPANY])], step=1, progress=0.0)
    without = [
        name
        for name, parameter in learner.model.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    ]
    return Proof(
        "every parameter gets a gradient",
        "parameters without",
        len(without),
        0,
        f"these will stay as they are: {', '.join(without)}; they are frozen, or nothing that "
        f"counts in the loss depends on them.",
    )


def a_few_can_be_learned_by_heart(case: Case) -> Proof:
    """A model that cannot even remember will not generalise (Karpathy 2019, "A recipe …")."""
    learner = case.learner()
    batch = case.batch(case.examples[:: len(case.examples) // BY_HEART])
    loss, steps = math.inf, 0
    while steps < STEPS and loss > LEARNED:
        steps += 1
        loss = learner.update([batch], steps, progress=0.0).loss
    rate = case.training.optimiser.learning_rate
    return Proof(
        f"{BY_HEART} examples can be learned by heart",
        f"loss per prediction after {steps} updates",
        loss,
        LEARNED,
        f"the model does not learn: try another training.optimiser.learning_rate (it is {rate:g}), "
        f"lower first; then fewer model.layers, or model.norm_first=true.",
    )


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
    accumulation_changes_nothing,
    every_parameter_learns,
    a_few_can_be_learned_by_heart,
)


def prove(case: Case, report: Reporter) -> Iterator[Proof]:
    """All of them, one after the other, with a sign of life in between."""
    for proof in PROOFS:
        with report.busy(f"Proving: {proof.__name__.replace('_', ' ')} …"):
            yield proof(case)


def _largest(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _apart(one: Tensor, other: Tensor) -> float:
    return _largest(one - other) / _largest(one)


def _gradient(model: nn.Module) -> Tensor:
    """Of all parameters that have one."""
    found = [each.grad.flatten() for each in model.parameters() if each.grad is not None]
    return torch.cat(found)
