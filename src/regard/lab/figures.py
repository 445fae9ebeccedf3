"""Tables and plots of the evidence, as data; and plots as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.lab.intervals import Interval
from regard.plotting import Line, plot_lines


@dataclass(frozen=True)
class Table:
    """A table; its first column names the rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Plot:
    """A line for each series: at each x a value, with its interval as a band."""

    title: str
    x: str  # labels of the axes
    y: str
    series: Mapping[str, Mapping[float, Interval]]
    log_x: bool = False
    log_y: bool = False


Figure = Table | Plot


def draw(plot: Plot) -> str:
    """Render a plot as SVG."""
    lines = {name: _line(points) for name, points in plot.series.items()}
    return plot_lines(lines, plot.x, plot.y, plot.log_x, plot.log_y)


def _line(points: Mapping[float, Interval]) -> Line:
    """Return the means over x, with a band if all intervals are finite."""
    x = sorted(points)
    values = [points[at] for at in x]
    finite = all(value.high - value.low < float("inf") for value in values)
    band = ([value.low for value in values], [value.high for value in values]) if finite else None
    return Line(x, [value.mean for value in values], band)
