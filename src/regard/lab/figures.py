"""Tables and plots of the evidence, as data; and plots as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.lab.intervals import Interval
from regard.plotting import figure_of


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
    """As SVG."""
    with figure_of(6, 3.6) as (figure, save):
        axes = figure.add_subplot()
        for name, points in plot.series.items():
            at = sorted(points)
            found = [points[each] for each in at]
            (line,) = axes.plot(at, [f.mean for f in found], marker="o", markersize=3, label=name)
            sure = [f for f in found if f.high - f.low < float("inf")]
            if len(sure) == len(found):
                low, high = [f.low for f in found], [f.high for f in found]
                axes.fill_between(at, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
        if plot.log_x:
            axes.set_xscale("log", base=2)
            ticks = sorted({x for points in plot.series.values() for x in points})
            axes.set_xticks(ticks[:: max(1, len(ticks) // 8)])
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.6g}")
            axes.minorticks_off()
        if plot.log_y:
            axes.set_yscale("log")
        axes.set_xlabel(plot.x)
        axes.set_ylabel(plot.y)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if len(plot.series) > 1:
            axes.legend(frameon=False, fontsize="small")
        return save()
