"""A small heat map for every head of every layer."""

from typing import ClassVar

from regard.insight.views.base import View


class Spec(View):
    title: ClassVar[str] = "All heads"
    order: ClassVar[int] = 30
