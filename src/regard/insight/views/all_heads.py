"""A small heat map for every head of every layer."""

from typing import ClassVar

from regard.insight.views.base import View


class Spec(View):
    title: ClassVar[str] = "All heads"
    question: ClassVar[str] = "Do heads differ, and which one is interesting?"
    order: ClassVar[int] = 30
