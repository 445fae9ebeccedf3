"""Figures as SVG: line plots with bands, and the axes style that all figures share.

The same figure always gives the same text, so that run folders and docs can be compared.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

SIZE = (6.0, 3.6)  # inches, of a plot
BAND_OPACITY = 0.2
DARK_TEXT, LIGHT_TEXT = "#222222", "white"  # on light and on dark cells


@contextmanager
def svg_figure(
    width: float = SIZE[0], height: float = SIZE[1]
) -> Iterator[tuple[Any, Callable[[], str]]]:
    """Yield a matplotlib figure of this size in inches, and a function that renders it as SVG."""
    # Figure and canvas without pyplot: no global state, no display, no fonts to look for.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "regard", "svg.fonttype": "none"}):
        figure = Figure(figsize=(width, height), layout="constrained")

        def render() -> str:
            file = io.StringIO()
            figure.savefig(file, format="svg", metadata={"Date": None})
            return file.getvalue()

        yield figure, render


@dataclass(frozen=True)
class Line:
    """A line of a plot."""

    x: Sequence[float]
    y: Sequence[float]
    band: tuple[Sequence[float], Sequence[float]] | None = None  # lower and upper bound of y
    markers: bool = True  # at each point


def plot_lines(
    lines: Mapping[str, Line], x_label: str, y_label: str, log_x: bool = False, log_y: bool = False
) -> str:
    """Plot lines by name as SVG; with a legend if there are several."""
    with svg_figure() as (figure, render):
        axes = figure.add_subplot()
        for name, line in lines.items():
            add_line(axes, line, name)
        if log_x:
            _log_x(axes, sorted({x for line in lines.values() for x in line.x}))
        if log_y:
            axes.set_yscale("log")
        style_axes(axes, x_label, y_label, legend=len(lines) > 1)
        return render()


def add_line(axes: Any, line: Line, name: str | None = None) -> None:
    """Draw a line, with its band if it has one."""
    marker = "o" if line.markers else None
    (drawn,) = axes.plot(line.x, line.y, label=name, marker=marker, markersize=3)
    if line.band is not None:
        color = drawn.get_color()
        axes.fill_between(line.x, *line.band, alpha=BAND_OPACITY, color=color, linewidth=0)


def style_axes(
    axes: Any, x_label: str | None = None, y_label: str | None = None, legend: bool = False
) -> None:
    """Label the axes; a light grid, no frame at the top and at the right."""
    if x_label is not None:
        axes.set_xlabel(x_label)
    if y_label is not None:
        axes.set_ylabel(y_label)
    axes.grid(alpha=0.25)
    hide_frame(axes)
    if legend:
        axes.legend(frameon=False, fontsize="small")


def hide_frame(axes: Any) -> None:
    """Remove the frame at the top and at the right."""
    axes.spines[["top", "right"]].set_visible(False)


def write_in_cell(axes: Any, row: int, column: int, text: str, dark: bool) -> None:
    """Write a value into a cell of a heat map; `dark` says whether the cell is."""
    color = LIGHT_TEXT if dark else DARK_TEXT
    axes.text(column, row, text, ha="center", va="center", fontsize=9, color=color)


def _log_x(axes: Any, values: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(values[:: max(1, len(values) // 8)])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.6g}")
    axes.minorticks_off()
