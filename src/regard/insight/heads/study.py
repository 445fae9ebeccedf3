"""All that can be said of a model's heads, put together: what `regard heads` shows and writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.errors import ConfigError
from regard.insight.heads.ablation import Removal, remove
from regard.insight.heads.divergence_over_training import fresh as fresh_model
from regard.insight.heads.divergence_over_training import growth, likenesses
from regard.insight.heads.examples import Examples
from regard.insight.heads.head_activity import glimpses
from regard.insight.heads.head_names import Head, by_kind
from regard.insight.heads.importance import Agreement, agreement, estimated, measured
from regard.insight.heads.losses import has_loss
from regard.insight.heads.similarity import Likeness, laid_out
from regard.insight.heads.statistics import HeadStatistics, punctuation_of, statistics
from regard.predictors.translator import Translator
from regard.training.reporting.progress import Reporter, silent

LOOKED = 128  # rows whose attention is looked at

NO_LOSS = (
    "An encoder alone has no loss, so nothing can be said of which heads it needs: "
    "here is what they look at and how they differ."
)


@dataclass(frozen=True)
class Importance:
    loss: float  # of the whole model, by token
    measured: dict[Head, float]  # how it rises without each head
    estimated: dict[Head, float]  # by the gradient

    @property
    def agreement(self) -> Agreement:
        return agreement(self.measured, self.estimated)


@dataclass(frozen=True)
class Study:
    heads: list[HeadStatistics]
    likeness: dict[str, Likeness]  # by kind of attention
    fresh: dict[str, Likeness]  # the same before training; empty where that is not known
    importance: Importance | None  # none without a loss
    removal: Removal | None
    growth: list[dict[str, Any]]  # divergence by checkpoint
    rows: int
    unit: str  # what a row is
    tolerance: float | None = None

    def sentences(self) -> list[str]:
        """What was found, in words."""
        found = [self._apart(kind) for kind, like in self.likeness.items() if len(like.heads) > 1]
        if self.importance is None:
            return [NO_LOSS, *found]
        agrees = self.importance.agreement
        found.append(
            f"The gradient's estimate and the masked loss agree in order to {agrees.spearman:.2f} "
            f"(Spearman) and in size to {agrees.pearson:.2f} (Pearson)."
        )
        if self.removal is not None:
            found.append(self.removal.knee(self.tolerance))
        return found

    def _apart(self, kind: str) -> str:
        like = self.likeness[kind]
        apart = like.overall(like.divergence)
        said = f"{kind}: heads differ by {apart:.2f} bits of divergence on average"
        if kind in self.fresh:
            before = self.fresh[kind]
            said += f", {before.overall(before.divergence):.2f} before training"
        nearest = like.nearest()
        assert nearest is not None
        return f"{said}; the most alike are {nearest[0]} and {nearest[1]}."

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "rows": self.rows,
            "unit": self.unit,
            "findings": self.sentences(),
            "heads": [self._head(each) for each in self.heads],
            "likeness": {kind: self._likeness(kind) for kind in self.likeness},
            "training": self.growth,
        }
        if self.importance is not None:
            agrees = self.importance.agreement
            found["loss"] = self.importance.loss
            found["agreement"] = {"spearman": agrees.spearman, "pearson": agrees.pearson}
        if self.removal is not None:
            found["removal"] = _removal(self.removal)
        return {key: _finite(each) for key, each in found.items()}

    def _head(self, each: HeadStatistics) -> dict[str, Any]:
        head = each.head
        found = {
            "name": str(head),
            "module": head.module,
            "head": head.number,
            "label": each.label or None,
            "entropy": each.entropy,
            "distance": each.distance,
            "shares": each.shares,
        }
        if self.importance is not None:
            found["loss_rise"] = self.importance.measured[head]
            found["gradient"] = self.importance.estimated[head]
        return found

    def _likeness(self, kind: str) -> dict[str, Any]:
        like = self.likeness[kind]
        found = {
            "heads": [str(head) for head in like.heads],
            "cosine": like.cosine.tolist(),
            "divergence": like.divergence.tolist(),
            "cka": like.cka.tolist(),
            "map": laid_out(like.divergence).tolist(),
            "means": _means(like),
        }
        if kind in self.fresh:
            found["means_before_training"] = _means(self.fresh[kind])
        return found


def _means(like: Likeness) -> dict[str, Any]:
    measures = {"cosine": like.cosine, "divergence": like.divergence, "cka": like.cka}
    return {
        name: {"within_layers": like.within(each), "across_layers": like.across(each)}
        for name, each in measures.items()
    }


def _removal(removal: Removal) -> dict[str, Any]:
    steps = [
        {
            "gone": [str(head) for head in step.gone],
            "removed": step.removed,
            "loss": step.loss,
            "loss_band": step.band,
            "rise_percent_band": step.rise,
            "bleu": step.bleu,
            "bleu_margin": step.bleu_margin,
            "bleu_chance": step.bleu_chance,
        }
        for step in removal.steps
    ]
    return {"heads": removal.heads, "judged_by_rows": removal.rows, "steps": steps}


def _finite(value: Any) -> Any:
    """JSON knows no NaN: what is not a number becomes null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def study(
    loaded: Any,
    examples: Examples,
    folder: Path | None = None,
    bleu: bool = False,
    tolerance: float | None = None,
    report: Reporter = silent,
) -> Study:
    """Look at what `regard.load` gave; with its run folder, also at how it came about."""
    if bleu and not isinstance(loaded, Translator):
        raise ConfigError("--bleu is for translators, and this model is none.")
    model: nn.Module = loaded.model
    few = examples.few(LOOKED)
    with report.busy("Looking at every head …"):
        heads = _statistics(loaded, few)
        like = likenesses(model, few)
        before = {} if folder is None else likenesses(fresh_model(folder), few)
    importance = removal = None
    if has_loss(model):
        importance = Importance(*measured(model, examples, report), estimated(model, examples))
        translator = loaded if bleu else None
        removal = remove(model, examples, translator, report=report)
    grown = [] if folder is None else growth(model, folder, examples, report)
    return Study(
        heads,
        like,
        before,
        importance,
        removal,
        grown,
        len(examples.rows),
        examples.unit,
        tolerance,
    )


def _statistics(loaded: Any, examples: Examples) -> list[HeadStatistics]:
    tokens = max(each.num_embeddings for each in _embeddings(loaded.model))
    punctuation = punctuation_of(loaded.tokenizer, tokens)
    found = []
    for kind in by_kind(loaded.model):
        seen = (each[kind] for each in glimpses(loaded.model, examples))
        found += statistics(seen, punctuation)
    return found


def _embeddings(model: nn.Module) -> list[nn.Embedding]:
    return [module for module in model.modules() if isinstance(module, nn.Embedding)]
