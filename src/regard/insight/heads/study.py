"""The study of a model's heads that `regard heads` shows and writes."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.errors import ConfigError
from regard.insight.heads.ablation import Ablation, ablate
from regard.insight.heads.divergence_over_training import (
    divergence_over_training,
    similarities,
    untrained_model,
)
from regard.insight.heads.examples import Examples
from regard.insight.heads.head_activity import head_activity
from regard.insight.heads.head_names import Head, by_kind
from regard.insight.heads.importance import Agreement, agreement, estimated, measured
from regard.insight.heads.losses import has_loss
from regard.insight.heads.similarity import Similarity, classical_scaling
from regard.insight.heads.statistics import HeadStatistics, punctuation_of, statistics
from regard.predictors.translator import Translator
from regard.training.reporting.progress import Reporter, silent

ROWS = 128  # used for attention statistics
MIN_ROWS = 100  # fewer give bootstrap bands that are too narrow

NO_LOSS = (
    "An encoder has no loss, so the importance of its heads is unknown: the study has their "
    "attention and their similarity."
)


@dataclass(frozen=True)
class Importance:
    """Importance of each head, measured and estimated."""

    loss: float  # of the full model, per token
    measured: dict[Head, float]  # rise of the loss without each head
    estimated: dict[Head, float]  # by the gradient

    @property
    def agreement(self) -> Agreement:
        return agreement(self.measured, self.estimated)


@dataclass(frozen=True)
class Study:
    """Statistics, similarity, importance and ablation of heads."""

    heads: list[HeadStatistics]
    similarity: dict[str, Similarity]  # by kind of attention
    untrained: dict[str, Similarity]  # before training; empty where unknown
    importance: Importance | None  # none without a loss
    ablation: Ablation | None
    divergence_over_training: list[dict[str, Any]]  # divergence by checkpoint
    rows: int
    unit: str  # what a row is
    tolerance: float | None = None

    def sentences(self) -> list[str]:
        """Return the main results as sentences."""
        result = [
            self._apart(kind) for kind, like in self.similarity.items() if len(like.heads) > 1
        ]
        if self.importance is None:
            return [NO_LOSS, *result]
        agrees = self.importance.agreement
        result.append(
            f"Estimated and measured importance have a rank correlation of {agrees.spearman:.2f} "
            f"(Spearman) and a correlation of {agrees.pearson:.2f} (Pearson)."
        )
        if self.ablation is not None:
            result.append(self.ablation.knee(self.tolerance))
        return result

    def too_few(self) -> str | None:
        """Return a sentence where there are too few examples, with how many would do."""
        needed = MIN_ROWS
        reason = f"bands of fewer than {MIN_ROWS} are not reliable"
        if self.ablation is not None:
            margin, tolerance, unit = self.ablation.precision(self.tolerance)
            by_margin = math.ceil(self.rows * (margin / tolerance) ** 2) if tolerance else 0
            if by_margin > needed:
                needed = by_margin
                reason = f"the cost is known to ±{margin:.2g} {unit}, tolerated is {tolerance:g}"
        if self.rows >= needed:
            return None
        rounded = math.ceil(needed / 100) * 100
        return (
            f"{self.rows:,} {self.unit} are too few: {reason}. About {rounded:,} would do: give "
            f"more data, or raise --max-lines."
        )

    def _apart(self, kind: str) -> str:
        like = self.similarity[kind]
        apart = like.overall(like.divergence)
        text = f"{kind}: the mean divergence of two heads is {apart:.2f} bits"
        if kind in self.untrained:
            before = self.untrained[kind]
            text += f", {before.overall(before.divergence):.2f} before training"
        nearest = like.nearest()
        assert nearest is not None
        return f"{text}; the most similar are {nearest[0]} and {nearest[1]}."

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "rows": self.rows,
            "unit": self.unit,
            "findings": self.sentences(),
            "heads": [self._head(head) for head in self.heads],
            "similarity": {kind: self._similarity(kind) for kind in self.similarity},
            "training": self.divergence_over_training,
        }
        if self.importance is not None:
            agrees = self.importance.agreement
            result["loss"] = self.importance.loss
            result["agreement"] = {"spearman": agrees.spearman, "pearson": agrees.pearson}
        if self.ablation is not None:
            result["ablation"] = _ablation(self.ablation)
        return {key: _finite(item) for key, item in result.items()}

    def _head(self, statistics: HeadStatistics) -> dict[str, Any]:
        head = statistics.head
        result = {
            "name": str(head),
            "module": head.module,
            "head": head.number,
            "label": statistics.label or None,
            "entropy": statistics.entropy,
            "distance": statistics.distance,
            "shares": statistics.shares,
        }
        if self.importance is not None:
            result["loss_rise"] = self.importance.measured[head]
            result["gradient"] = self.importance.estimated[head]
        return result

    def _similarity(self, kind: str) -> dict[str, Any]:
        like = self.similarity[kind]
        result = {
            "heads": [str(head) for head in like.heads],
            "cosine": like.cosine.tolist(),
            "divergence": like.divergence.tolist(),
            "cka": like.cka.tolist(),
            "map": classical_scaling(like.divergence).tolist(),
            "means": _means(like),
        }
        if kind in self.untrained:
            result["means_before_training"] = _means(self.untrained[kind])
        return result


def _means(like: Similarity) -> dict[str, Any]:
    measures = {"cosine": like.cosine, "divergence": like.divergence, "cka": like.cka}
    return {
        name: {"within_layers": like.within(measure), "across_layers": like.across(measure)}
        for name, measure in measures.items()
    }


def _ablation(ablation: Ablation) -> dict[str, Any]:
    steps = [
        {
            "removed_heads": [str(head) for head in step.gone],
            "removed": step.removed,
            "loss": step.loss,
            "loss_band": step.band,
            "rise_percent_band": step.rise,
            "bleu": step.bleu,
            "bleu_margin": step.bleu_margin,
            "bleu_p_value": step.bleu_p_value,
        }
        for step in ablation.steps
    ]
    return {"heads": ablation.heads, "evaluated_rows": ablation.rows, "steps": steps}


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by None, for JSON."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def study(
    loaded: Any,
    examples: Examples,
    folder: Path | None = None,
    bleu: bool = False,
    tolerance: float | None = None,
    report: Reporter = silent,
) -> Study:
    """Study the heads of a loaded predictor; with its run folder, also over training.

    Args:
        loaded: a predictor as returned by `regard.load`.
        examples: rows from `read_examples`.
        folder: its run folder, to compare with the untrained model and the checkpoints.
        bleu: measure BLEU at each step of the ablation (translators only).
        tolerance: cost that the summary of the ablation allows.
        report: shows progress.
    """
    if bleu and not isinstance(loaded, Translator):
        raise ConfigError("--bleu needs a translator; this model is not one.")
    model: nn.Module = loaded.model
    few = examples.few(ROWS)
    with report.busy("Comparing heads …"):
        heads = _statistics(loaded, few)
        like = similarities(model, few)
        before = {} if folder is None else similarities(untrained_model(folder), few)
    importance = ablation = None
    if has_loss(model):
        importance = Importance(*measured(model, examples, report), estimated(model, examples))
        translator = loaded if bleu else None
        ablation = ablate(model, examples, translator, report=report)
    grown = [] if folder is None else divergence_over_training(model, folder, examples, report)
    return Study(
        heads,
        like,
        before,
        importance,
        ablation,
        grown,
        len(examples.rows),
        examples.unit,
        tolerance,
    )


def _statistics(loaded: Any, examples: Examples) -> list[HeadStatistics]:
    tokens = max(embedding.num_embeddings for embedding in _embeddings(loaded.model))
    punctuation = punctuation_of(loaded.tokenizer, tokens)
    result = []
    for kind in by_kind(loaded.model):
        seen = (activity[kind] for activity in head_activity(loaded.model, examples))
        result += statistics(seen, punctuation)
    return result


def _embeddings(model: nn.Module) -> list[nn.Embedding]:
    return [module for module in model.modules() if isinstance(module, nn.Embedding)]
