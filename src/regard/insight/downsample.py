"""Downsample a picture of a long text to a size that a browser opens quickly."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from regard.insight.packing import Mask
from regard.insight.panels.base import Panel
from regard.insight.picture import Picture

# A page with more numbers than this takes a browser too long to open.
MAX_NUMBERS = 40_000_000


def downsample(picture: Picture, max_numbers: int = MAX_NUMBERS) -> Picture:
    """Return the picture, with neighboring tokens merged where it has more than `max_numbers`.

    Weights are summed over a group of keys and averaged over a group of queries, so that a row
    still sums to 1.
    """
    size = max((max(panel.weights.shape[2:]) for panel in picture.panels), default=0)
    group = 1
    while _count(picture, group) > max_numbers and group < size:
        group += 1
    if group == 1:
        return picture
    note = (
        f"The text is too long to show every token: each row and column stands for {group} "
        f"neighboring tokens."
    )
    return replace(
        picture,
        panels=tuple(_merged(panel, group) for panel in picture.panels),
        views={name: data for name, data in picture.views.items() if not data.per_token},
        notes=(*picture.notes, note),
    )


def _count(picture: Picture, group: int) -> int:
    shapes = (panel.weights.shape for panel in picture.panels)
    return sum(
        layers * heads * -(-queries // group) * -(-keys // group)
        for layers, heads, queries, keys in shapes
    )


def _merged(panel: Panel, group: int) -> Panel:
    queries, keys = panel.weights.shape[2:]
    starts = [np.arange(0, size, group) for size in (queries, keys)]
    weights = np.add.reduceat(np.add.reduceat(panel.weights, starts[1], 3), starts[0], 2)
    sizes = np.diff(np.append(starts[0], queries))
    return Panel(
        panel.name,
        panel.title,
        _joined(panel.queries, group),
        _joined(panel.keys, group),
        (weights / sizes[:, None]).astype(np.float32),
        _joined(panel.predicts, group),
        panel.causal,
        may_attend=None if panel.may_attend is None else _any(panel.may_attend, starts),
    )


def _any(may_attend: Mask, starts: list[npt.NDArray[np.int_]]) -> Mask:
    """Return True for a pair of groups where any of their tokens may attend."""
    merged: Mask = np.logical_or.reduceat(
        np.logical_or.reduceat(may_attend, starts[1], 2), starts[0], 1
    )
    return merged


def _joined(tokens: tuple[str, ...], group: int) -> tuple[str, ...]:
    return tuple(" ".join(tokens[i : i + group]) for i in range(0, len(tokens), group))
