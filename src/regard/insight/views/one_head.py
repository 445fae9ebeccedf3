"""One query of one head: the scores of its keys before the softmax, and their weights."""

from typing import ClassVar

from regard.insight.views.base import View


class Spec(View):
    title: ClassVar[str] = "Scores of one head"
    question: ClassVar[str] = "Which scores, and which components of q and k, make a weight?"
    order: ClassVar[int] = 40
    points: ClassVar[frozenset[str]] = frozenset({"scores"})
    max_tokens: ClassVar[int | None] = 128
