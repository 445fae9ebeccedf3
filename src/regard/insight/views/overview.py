"""Lines and heat map of the same attention, one below the other."""

from typing import ClassVar

from regard.insight.views.base import View


class Spec(View):
    title: ClassVar[str] = "Overview"
    question: ClassVar[str] = "Which token attends to which, in one layer?"
    order: ClassVar[int] = 0
    cards: ClassVar[tuple[str, ...]] = ("lines", "heat-map")
