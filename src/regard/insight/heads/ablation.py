"""Ablation: heads are removed one after the other, the least important first.

At each step the gradient (`importance.estimated`) of the remaining model selects a few candidates,
and the one with the lowest loss without it is removed. At least one head of each attention stays.
Heads are chosen on some rows and evaluated on the others; the bands are bootstrap intervals over
rows (Efron 1979: 95 % of the draws).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import nn

from regard.evaluation.bootstrap import paired_bootstrap
from regard.insight.heads.examples import Examples
from regard.insight.heads.head_masks import copy_with_head_masks, without
from regard.insight.heads.head_names import Head, heads_of, units
from regard.insight.heads.importance import estimated
from regard.insight.heads.losses import Losses, losses
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.translator import Translator
from regard.training.reporting.progress import Reporter, silent

CHOOSING = 128  # largest number of rows to choose heads by
CANDIDATES = 4
DRAWS = 1000
SEED = 12345

Band = tuple[float, float]


@dataclass(frozen=True)
class Step:
    """The model after one more removal."""

    gone: tuple[Head, ...]  # removed at this step
    removed: int  # heads removed so far
    loss: float  # per token
    band: Band
    rise: Band  # of the loss, in percent of the full model's, paired by row
    bleu: float | None = None
    bleu_margin: float | None = None
    bleu_p_value: float | None = None  # of the difference to the full model


@dataclass(frozen=True)
class Ablation:
    """The steps of an ablation."""

    steps: list[Step]  # the first is the full model
    heads: int  # of the full model
    rows: int  # used for evaluation

    @property
    def order(self) -> list[tuple[Head, ...]]:
        """The removed heads, in order."""
        return [step.gone for step in self.steps[1:]]

    def knee(self, tolerance: float | None = None) -> str:
        """Return how many heads can be removed for a percentage of the loss, or for BLEU."""
        whole, by_bleu = self.steps[0], self.steps[0].bleu is not None
        tolerance = (0.5 if by_bleu else 1.0) if tolerance is None else tolerance
        last = self.within(tolerance)
        if by_bleu:
            price = f"{tolerance:g} BLEU"
            change = f"{whole.bleu:.1f} → {last.bleu:.1f}, p = {last.bleu_p_value:.2f}"
        else:
            price = f"{tolerance:g} % of the loss"
            change = (
                f"{whole.loss:.4f} → {last.loss:.4f}, {last.rise[0]:+.1f} to {last.rise[1]:+.1f} %"
            )
        return f"{last.removed} of {self.heads} heads can be removed for {price} ({change})."

    def precision(self, tolerance: float | None = None) -> tuple[float, float, str]:
        """Return half the width of the 95 % band around the tolerance, the tolerance, its unit."""
        by_bleu = self.steps[0].bleu is not None
        tolerance = (0.5 if by_bleu else 1.0) if tolerance is None else tolerance
        last = self.steps.index(self.within(tolerance))
        step = self.steps[min(last + 1, len(self.steps) - 1)]
        if by_bleu:
            return float(step.bleu_margin or 0), tolerance, "BLEU"
        return (step.rise[1] - step.rise[0]) / 2, tolerance, "% of the loss"

    def within(self, tolerance: float) -> Step:
        """Return the last step that costs no more than the tolerance."""
        return [step for step in self.steps if self._cost(step) <= tolerance][-1]

    def _cost(self, step: Step) -> float:
        whole = self.steps[0]
        if whole.bleu is not None and step.bleu is not None:
            return whole.bleu - step.bleu
        return 100 * (step.loss - whole.loss) / whole.loss


def ablate(
    model: nn.Module,
    examples: Examples,
    translator: Translator | None = None,
    most: int | None = None,
    report: Reporter = silent,
) -> Ablation:
    """Remove up to `most` heads, by default all that can be; with a translator, measure BLEU."""
    choosing, evaluating = examples.halves(CHOOSING)
    whole = losses(model, evaluating)
    bleu = _Bleu(translator, model, evaluating)
    steps = [_evaluated(whole, whole, (), 0)]
    removed: set[Head] = set()
    total = len(heads_of(model)) if most is None else most
    with report.bar("Removing heads", total, "heads") as advance:
        steps[0] = bleu.add(steps[0], removed)
        while candidates := _removable(model, removed, most):
            unit = _least(model, choosing, candidates, removed)
            removed |= set(unit)
            now = losses(model, evaluating, without(model, removed))
            steps.append(bleu.add(_evaluated(now, whole, unit, len(removed)), removed))
            advance(len(unit))
    return Ablation(steps, len(heads_of(model)), len(evaluating.rows))


def _removable(
    model: nn.Module, removed: Collection[Head], most: int | None
) -> list[tuple[Head, ...]]:
    """Return the units that can be removed: not the last of an attention."""
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


def _evaluated(now: Losses, whole: Losses, gone: tuple[Head, ...], removed: int) -> Step:
    drawn, before = (_bootstrap(rows) for rows in (now, whole))
    rise = 100 * (drawn - before) / before
    return Step(gone, removed, now.mean, _middle(drawn), _middle(rise))


def _bootstrap(losses: Losses) -> npt.NDArray[np.float64]:
    """Return bootstrap means of the loss; the same draws for each step."""
    count = len(losses.rows)
    often = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), DRAWS)
    return np.asarray((often @ losses.rows) / (often @ losses.tokens))


def _middle(draws: npt.NDArray[np.float64]) -> Band:
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


class _Bleu:
    """BLEU of translations with fewer heads, compared with the full model's."""

    def __init__(self, translator: Translator | None, model: nn.Module, examples: Examples) -> None:
        self.translator, self.model, self.examples = translator, model, examples
        self.first: list[str] = []

    def add(self, step: Step, removed: Collection[Head]) -> Step:
        """Return the step with its BLEU, if there is a translator."""
        if self.translator is None:
            return step
        pruned = copy_with_head_masks(self.model, without(self.model, removed))
        translations = translate(self.translator, pruned, self.examples)
        self.first = self.first or translations
        references = [row.texts[1] for row in self.examples.rows]
        result = paired_bootstrap(
            references=references, ours=translations, theirs=self.first, samples=DRAWS
        )
        return replace(
            step,
            bleu=result.ours.bleu,
            bleu_margin=result.ours.margin,
            bleu_p_value=result.p_value,
        )


def translate(translator: Translator, model: nn.Module, examples: Examples) -> list[str]:
    """Translate the examples with another model in place of the translator's."""
    assert isinstance(model, EncoderDecoder | DecoderOnly)
    other = Translator(
        model,
        translator.tokenizer,
        translator.language_identifier,
        translator.max_length,
        translator.directions,
        suppressed=[phrase[0] for phrase in translator.suppressed],
    )
    return other.translate([row.texts[0] for row in examples.rows], examples.to, beam=1)
