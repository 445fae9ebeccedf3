"""The figures of a study as SVG, by name: importance, map, similarity, ablation, training."""

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.insight.heads.ablation import Ablation
from regard.insight.heads.similarity import Similarity, classical_scaling
from regard.insight.heads.study import Importance, Study
from regard.plotting import Line, add_line, hide_frame, style_axes, svg_figure, write_in_cell

CAPTIONS = {
    "importance": "Rise of the loss without each head, in percent. A row is a layer.",
    "map": "Divergence on a plane: similar heads are close. Color: layer; number: layer.head.",
    "similarity": "Divergence of every two heads in bits: dark is similar. Lines separate layers.",
    "ablation": "Removal of heads, the least important first, with 95 % bootstrap bands.",
    "training": "Mean divergence of heads over training, in bits.",
}


def figures(study: Study) -> dict[str, str]:
    drawn = {}
    kinds = list(study.similarity)
    if study.importance is not None:
        drawn["importance"] = _side_by_side(kinds, _importance(study.importance))
    several = [kind for kind in kinds if len(study.similarity[kind].heads) > 2]
    if several:
        drawn["map"] = _side_by_side(several, _map(study.similarity))
        drawn["similarity"] = _side_by_side(several, _likeness(study.similarity))
    if study.ablation is not None and len(study.ablation.steps) > 1:
        drawn["ablation"] = _removal(study.ablation)
    if len(study.divergence_over_training) > 1:
        drawn["training"] = _growth(study.divergence_over_training)
    return drawn


def _side_by_side(kinds: list[str], paint: Callable[[Any, Any, str], None]) -> str:
    with svg_figure(3.2 * len(kinds) + 0.6, 3.2) as (figure, render):
        for place, kind in enumerate(kinds, start=1):
            axes = figure.add_subplot(1, len(kinds), place)
            axes.set_title(kind, fontsize=10)
            paint(figure, axes, kind)
        return render()


def _importance(importance: Importance) -> Callable[[Any, Any, str], None]:
    rise = {
        head: 100 * increase / importance.loss for head, increase in importance.measured.items()
    }
    most = max(0.01, *map(abs, rise.values()))

    def paint(figure: Any, axes: Any, kind: str) -> None:
        own = {head: increase for head, increase in rise.items() if head.kind == kind}
        layers, heads = (1 + max(getattr(h, of) for h in own) for of in ("layer", "number"))
        grid = np.full((layers, heads), np.nan)
        for head, increase in own.items():
            grid[head.layer, head.number] = increase
        shown = axes.imshow(grid, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
        axes.set_xticks(range(heads), map(str, range(1, heads + 1)))
        axes.set_yticks(range(layers), map(str, range(1, layers + 1)))
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        if grid.size <= 48:
            for head, increase in own.items():
                strong = abs(increase) > 0.6 * most
                shown_value = f"{round(increase, 1) + 0:.1f}"  # no minus before a zero
                write_in_cell(axes, head.layer, head.number, shown_value, strong)
        figure.colorbar(shown, ax=axes, shrink=0.8)

    return paint


def _map(similarity: dict[str, Similarity]) -> Callable[[Any, Any, str], None]:
    def paint(_: Any, axes: Any, kind: str) -> None:
        like = similarity[kind]
        places = classical_scaling(like.divergence)
        layers = [head.layer for head in like.heads]
        axes.scatter(places[:, 0], places[:, 1], c=layers, cmap="viridis", s=60, alpha=0.8)
        if len(like.heads) <= 48:
            for head, (x, y) in zip(like.heads, places, strict=True):
                name = f"{head.layer + 1}.{head.number + 1}"
                axes.annotate(name, (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8)
        axes.margins(0.15)
        axes.set_aspect("equal", adjustable="datalim")
        hide_frame(axes)

    return paint


def _likeness(similarity: dict[str, Similarity]) -> Callable[[Any, Any, str], None]:
    def paint(figure: Any, axes: Any, kind: str) -> None:
        like = similarity[kind]
        shown = axes.imshow(like.divergence, cmap="viridis", vmin=0, vmax=1)
        layers = [head.layer for head in like.heads]
        for at in (place for place in range(1, len(layers)) if layers[place] != layers[place - 1]):
            axes.axhline(at - 0.5, color="white", linewidth=0.8)
            axes.axvline(at - 0.5, color="white", linewidth=0.8)
        axes.set_xticks([])
        axes.set_yticks([])
        figure.colorbar(shown, ax=axes, shrink=0.8)

    return paint


def _removal(ablation: Ablation) -> str:
    steps = ablation.steps
    with_bleu = steps[0].bleu is not None
    with svg_figure(5.2 * (1 + with_bleu), 3.6) as (figure, render):
        gone = [step.removed for step in steps]
        axes = figure.add_subplot(1, 1 + with_bleu, 1)
        low, high = zip(*(step.band for step in steps), strict=True)
        _curve(axes, gone, [step.loss for step in steps], (low, high), "loss per token")
        if with_bleu:
            bleu = np.array([step.bleu for step in steps], dtype=float)
            margin = np.array([step.bleu_margin for step in steps], dtype=float)
            axes = figure.add_subplot(1, 2, 2)
            _curve(axes, gone, bleu, (bleu - margin, bleu + margin), "BLEU")
        for axes in figure.axes:
            axes.set_xlabel(f"heads removed of {ablation.heads}")
        return render()


def _curve(axes: Any, x: Any, y: Any, band: tuple[Any, Any], y_label: str) -> None:
    add_line(axes, Line(x, y, band))
    style_axes(axes, y_label=y_label)


def _growth(divergence_over_training: list[dict[str, Any]]) -> str:
    with svg_figure(6.4, 3.6) as (figure, render):
        axes = figure.add_subplot()
        steps = [checkpoint["step"] for checkpoint in divergence_over_training]
        for kind in divergence_over_training[0]["divergence"]:
            means = [
                checkpoint["divergence"][kind]["all"] for checkpoint in divergence_over_training
            ]
            values = [float("nan") if mean is None else mean for mean in means]
            add_line(axes, Line(steps, values), kind)
        style_axes(axes, "step", "mean divergence (bits)", legend=True)
        return render()
