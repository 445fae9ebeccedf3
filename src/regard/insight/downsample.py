"""A picture that a browser can bear: long texts with neighbouring words taken together."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from regard.insight.picture import Panel, Picture, Places

# A page of more numbers than this takes a browser too long to open.
MOST_NUMBERS = 40_000_000


def bearable(picture: Picture, most: int = MOST_NUMBERS) -> Picture:
    """The picture, or where it has too many numbers, one with neighbouring words taken together.

    A query's weights for a group of keys are added up; a group of queries looks as its members do
    on average. So a row still sums to 1.
    """
    size = max((max(panel.weights.shape[2:]) for panel in picture.panels), default=0)
    group = 1
    while _numbers(picture, group) > most and group < size:
        group += 1
    if group == 1:
        return picture
    note = (
        f"There are more numbers than a browser can bear: {group} neighbouring words are shown "
        f"as one."
    )
    panels = tuple(_grouped(panel, group) for panel in picture.panels)
    return replace(
        picture, panels=panels, flows=(), lens=None, steps=(), notes=(*picture.notes, note)
    )


def _numbers(picture: Picture, group: int) -> int:
    sizes = (panel.weights.shape for panel in picture.panels)
    return sum(
        layers * heads * -(-queries // group) * -(-keys // group)
        for layers, heads, queries, keys in sizes
    )


def _grouped(panel: Panel, group: int) -> Panel:
    queries, keys = panel.weights.shape[2:]
    starts = [np.arange(0, size, group) for size in (queries, keys)]
    weights = np.add.reduceat(np.add.reduceat(panel.weights, starts[1], 3), starts[0], 2)
    members = np.diff(np.append(starts[0], queries))
    return Panel(
        panel.name,
        panel.title,
        _joined(panel.queries, group),
        _joined(panel.keys, group),
        (weights / members[:, None]).astype(np.float32),
        _joined(panel.predicts, group),
        panel.causal,
        visible=None if panel.visible is None else _any(panel.visible, starts),
    )


def _any(visible: Places, starts: list[npt.NDArray[np.int_]]) -> Places:
    """A group may look where one of its members may."""
    places: Places = np.logical_or.reduceat(
        np.logical_or.reduceat(visible, starts[1], 2), starts[0], 1
    )
    return places


def _joined(words: tuple[str, ...], group: int) -> tuple[str, ...]:
    return tuple(" ".join(words[i : i + group]) for i in range(0, len(words), group))
