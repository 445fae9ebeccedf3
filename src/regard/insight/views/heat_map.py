"""Heat map of the attention weights: rows are queries, columns are keys."""

from typing import ClassVar

from regard.insight.views.base import View


class Spec(View):
    title: ClassVar[str] = "Heat map"
    question: ClassVar[str] = "What are the weights of one head, or the mean of several?"
    order: ClassVar[int] = 20
