"""Word alignment by the cross-attention: target words against source words."""

from typing import ClassVar

from regard.insight.views.base import View


class Spec(View):
    title: ClassVar[str] = "Alignment"
    question: ClassVar[str] = "Which source word belongs to which target word?"
    order: ClassVar[int] = 60
