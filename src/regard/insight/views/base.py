"""The view of the page: its title, the data it needs, and its script.

A view is a kind: `views/entropy.py` with a class `Spec(View)` and `views/entropy.js` beside it. The
page's menu, its help, the export and the contract tests find it by its file name; there is no list
to edit. The Python side declares what is recorded in the forward pass (`points`), up to how many
tokens (`max_tokens`), and computes the view's data; the JavaScript side draws it (`page/assets/
views.js` documents its interface). A view that draws only the attention weights needs no data.
"""

from abc import ABC, abstractmethod
from importlib.resources import files
from typing import Any, ClassVar, cast

from regard.config import Kind, kind_specs
from regard.insight.forward_passes import ForwardPass
from regard.insight.seen import Seen


class ViewData(ABC):
    """Data of one view: arrays and texts that `to_json` turns into plain data for the script."""

    per_token: ClassVar[bool] = True
    """False for data that stays valid when neighboring tokens of a long text are merged."""

    @abstractmethod
    def to_json(self) -> Any:
        """Return dicts, lists, strings and numbers; arrays are packed by `insight.packing`."""


class View(Kind, package="regard.insight.views"):
    """One view of the page."""

    title: ClassVar[str]
    """Shown in the menu and as the heading of the view."""
    question: ClassVar[str]
    """The question that the view answers, one sentence below the menu."""
    order: ClassVar[int]
    """Position in the menu, which is also the order in which the page suggests the views."""
    cards: ClassVar[tuple[str, ...]] = ()
    """Names of the views that are drawn one below the other; by default the view itself."""
    keyboard: ClassVar[str] = ""
    """Mouse and keyboard, for the help of the page; empty where only common keys are used."""
    points: ClassVar[frozenset[str]] = frozenset()
    """Points of `insight.watch` recorded for this view beside the attention weights."""
    max_tokens: ClassVar[int | None] = None
    """The view is omitted for longer texts; None where there is no limit."""
    needs_attention: ClassVar[bool] = True
    """False for data that is also computed for models without attention."""

    def compute(self, run: ForwardPass, seen: Seen) -> ViewData | None:
        """Compute the data of the view from a recorded forward pass; None where there is none."""
        return None

    def script(self) -> str:
        """Return the JavaScript of the view; empty for a view made of others."""
        if self.cards:
            return ""
        name = f"{self.__module__.rpartition('.')[2]}.js"
        return files(self.package).joinpath(name).read_text(encoding="utf-8")


def all_views() -> list[View]:
    """Return the views in the order of the menu."""
    specs = cast("list[type[View]]", kind_specs(View.package))
    return sorted((spec() for spec in specs), key=lambda view: view.order)
