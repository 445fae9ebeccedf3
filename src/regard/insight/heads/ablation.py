"""How many heads are needed: they go one after the other, the least important first.

At each step the gradient (`importance.estimated`), taken anew of what is left, names a few
candidates, and the one without which the loss is lowest goes. At least one head of each attention
stays. Heads are chosen by some of the text and judged by the rest; the bands say how far the
numbers depend on which rows happened to be in it (bootstrap, Efron 1979: 95 % of the draws).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import nn

from regard.evaluation.bootstrap import paired_bootstrap
from regard.insight.heads.examples import Examples
from regard.insight.heads.head_masks import silenced, without
from regard.insight.heads.head_names import Head, heads_of, units
from regard.insight.heads.importance import estimated
from regard.insight.heads.losses import Losses, losses
from regard.predictors.seq2seq import Model
from regard.predictors.translator import Translator
from regard.training.reporting.progress import Reporter, silent

CHOOSING = 128  # rows to choose by, at most
CANDIDATES = 4
DRAWS = 1000
SEED = 12345

Band = tuple[float, float]


@dataclass(frozen=True)
class Step:
    """The model when these heads, too, are gone."""

    gone: tuple[Head, ...]  # at this step
    removed: int  # in all
    loss: float  # by token
    band: Band
    rise: Band  # of the loss in percent of the whole model's, row by row
    bleu: float | None = None
    bleu_margin: float | None = None
    bleu_chance: float | None = None  # of a difference as large from the whole model's (p-value)


@dataclass(frozen=True)
class Removal:
    steps: list[Step]  # the first is the whole model
    heads: int  # of the whole model
    rows: int  # judged by

    @property
    def order(self) -> list[tuple[Head, ...]]:
        return [step.gone for step in self.steps[1:]]

    def knee(self, tolerance: float | None = None) -> str:
        """How many can go, in one sentence: for a percentage of the loss, or for BLEU."""
        whole, by_bleu = self.steps[0], self.steps[0].bleu is not None
        tolerance = (0.5 if by_bleu else 1.0) if tolerance is None else tolerance
        last = self.within(tolerance)
        if by_bleu:
            price = f"{tolerance:g} BLEU"
            change = f"{whole.bleu:.1f} → {last.bleu:.1f}, p = {last.bleu_chance:.2f}"
        else:
            price = f"{tolerance:g} % of the loss"
            change = (
                f"{whole.loss:.4f} → {last.loss:.4f}, {last.rise[0]:+.1f} to {last.rise[1]:+.1f} %"
            )
        return f"{last.removed} of {self.heads} heads can go for {price} ({change})."

    def within(self, tolerance: float) -> Step:
        """The last step that costs no more than that."""
        return [step for step in self.steps if self._cost(step) <= tolerance][-1]

    def _cost(self, step: Step) -> float:
        whole = self.steps[0]
        if whole.bleu is not None and step.bleu is not None:
            return whole.bleu - step.bleu
        return 100 * (step.loss - whole.loss) / whole.loss


def remove(
    model: nn.Module,
    examples: Examples,
    translator: Translator | None = None,
    most: int | None = None,
    report: Reporter = silent,
) -> Removal:
    """Let heads go until `most` are gone, or none can; with a translator, BLEU at each step too."""
    choosing, judging = examples.halves(CHOOSING)
    whole = losses(model, judging)
    bleu = _Bleu(translator, model, judging)
    steps = [_judged(whole, whole, (), 0)]
    removed: set[Head] = set()
    total = len(heads_of(model)) if most is None else most
    with report.bar("Removing heads", total, "heads") as advance:
        steps[0] = bleu.add(steps[0], removed)
        while candidates := _may_go(model, removed, most):
            unit = _least(model, choosing, candidates, removed)
            removed |= set(unit)
            now = losses(model, judging, without(model, removed))
            steps.append(bleu.add(_judged(now, whole, unit, len(removed)), removed))
            advance(len(unit))
    return Removal(steps, len(heads_of(model)), len(judging.rows))


def _may_go(
    model: nn.Module, removed: Collection[Head], most: int | None
) -> list[tuple[Head, ...]]:
    """What is left and is not the last of its attention."""
    left = [unit for unit in units(model) if unit[0] not in removed]
    modules = [unit[0].module for unit in left]
    room = len(heads_of(model)) if most is None else most - len(removed)
    return [unit for unit in left if modules.count(unit[0].module) > 1 and len(unit) <= room]


def _least(
    model: nn.Module,
    examples: Examples,
    candidates: Sequence[tuple[Head, ...]],
    removed: Collection[Head],
) -> tuple[Head, ...]:
    guess = estimated(model, examples, removed)
    likely = sorted(candidates, key=lambda unit: sum(guess[head] for head in unit))[:CANDIDATES]
    if len(likely) == 1:
        return likely[0]

    def loss(unit: tuple[Head, ...]) -> float:
        return losses(model, examples, without(model, {*removed, *unit})).mean

    return min(likely, key=loss)


def _judged(now: Losses, whole: Losses, gone: tuple[Head, ...], removed: int) -> Step:
    drawn, before = (_drawn(each) for each in (now, whole))
    rise = 100 * (drawn - before) / before
    return Step(gone, removed, now.mean, _middle(drawn), _middle(rise))


def _drawn(found: Losses) -> npt.NDArray[np.float64]:
    """The loss on as many rows, drawn with replacement; the same draws for each step."""
    count = len(found.rows)
    often = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), DRAWS)
    return np.asarray((often @ found.rows) / (often @ found.tokens))


def _middle(draws: npt.NDArray[np.float64]) -> Band:
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


class _Bleu:
    """What is said with fewer and fewer heads, scored beside what the whole model said."""

    def __init__(self, translator: Translator | None, model: nn.Module, examples: Examples) -> None:
        self.translator, self.model, self.examples = translator, model, examples
        self.first: list[str] = []

    def add(self, step: Step, removed: Collection[Head]) -> Step:
        """The step with its BLEU, where there is a translator."""
        if self.translator is None:
            return step
        quiet = silenced(self.model, without(self.model, removed))
        said = translate(self.translator, quiet, self.examples)
        self.first = self.first or said
        references = [row.texts[1] for row in self.examples.rows]
        found = paired_bootstrap(references=references, ours=said, theirs=self.first, samples=DRAWS)
        return replace(
            step,
            bleu=found.ours.bleu,
            bleu_margin=found.ours.margin,
            bleu_chance=found.p_value,
        )


def translate(translator: Translator, model: nn.Module, examples: Examples) -> list[str]:
    """What the translator says with another model in its place."""
    assert isinstance(model, Model)
    other = Translator(
        model,
        translator.tokenizer,
        translator.language_identifier,
        translator.max_length,
        translator.directions,
        suppressed=[each[0] for each in translator.suppressed],
    )
    return other.translate([row.texts[0] for row in examples.rows], examples.to)
