"""Plain data between a model's tensors and the code that draws them.

A `Picture` is one forward pass of one model on one text: its `Panel`s are matrices of attention
weights, and `views` holds the data that single views of the page need beyond them. A `Snapshot` is
one picture or two side by side, a `History` several snapshots, such as the checkpoints of a
training run. Nothing here depends on models, HTML or terminals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.insight.opening import opening_panel, opening_query
from regard.insight.panels.base import Panel
from regard.insight.views.base import ViewData

# The ten colors of common attention figures, one for each head; an eleventh head starts again.
HEAD_COLORS = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)


@dataclass(frozen=True)
class Picture:
    """One forward pass of one model on one text."""

    title: str
    caption: str
    source: str
    output: str
    panels: tuple[Panel, ...]
    views: Mapping[str, ViewData] = field(default_factory=dict)
    """Data of the views of the page, by the name of the view."""
    notes: tuple[str, ...] = ()
    """Sentences on what was downsampled or omitted."""
    warnings: tuple[str, ...] = ()
    """Sentences on what makes the picture doubtful, such as a text unlike the training text."""

    def __post_init__(self) -> None:
        names = [panel.name for panel in self.panels]
        if len(set(names)) != len(names):
            raise ValueError(f"the names of panels must differ, got {', '.join(names)}")

    def panel(self, name: str) -> Panel:
        """Return the panel of that name; raises LookupError where there is none."""
        for panel in self.panels:
            if panel.name == name:
                return panel
        known = ", ".join(panel.name for panel in self.panels) or "none"
        raise LookupError(f"no panel is named {name!r}; there are: {known}")

    def to_json(self) -> dict[str, Any]:
        """Return the picture as dicts, lists, strings and numbers."""
        opening = opening_panel(self.panels)
        return {
            "title": self.title,
            "caption": self.caption,
            "source": self.source,
            "output": self.output,
            "colors": list(HEAD_COLORS),
            "opening": {
                "panel": opening.name if opening else None,
                "query": opening_query(opening) if opening else None,
            },
            "panels": [panel.to_json() for panel in self.panels],
            "views": {name: data.to_json() for name, data in self.views.items()},
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Picture:
        """Return what `to_json` wrote, without the data of the views."""
        return cls(
            title=content["title"],
            caption=content["caption"],
            source=content["source"],
            output=content["output"],
            panels=tuple(map(Panel.from_json, content["panels"])),
            notes=tuple(content["notes"]),
            warnings=tuple(content.get("warnings", ())),
        )

    def _repr_html_(self) -> str:
        """Show the page in a frame of a notebook."""
        from html import escape

        from regard.insight.page.render import render

        page = escape(render(self), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="900" style="border:0"></iframe>'


@dataclass(frozen=True)
class Snapshot:
    """One state of a page: one picture, or two side by side."""

    title: str  # such as "step 200"; empty where there is one snapshot
    pictures: tuple[Picture, ...]

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "pictures": [picture.to_json() for picture in self.pictures]}


@dataclass(frozen=True)
class History:
    """Snapshots in order, such as the attention of one text at the checkpoints of a run."""

    snapshots: tuple[Snapshot, ...]

    @classmethod
    def of(cls, *pictures: Picture) -> History:
        """Return one snapshot of one picture, or of two side by side."""
        return cls((Snapshot("", pictures),))

    def to_json(self) -> dict[str, Any]:
        return {"snapshots": [snapshot.to_json() for snapshot in self.snapshots]}
