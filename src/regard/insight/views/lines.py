"""Lines from query tokens on the left to key tokens on the right, one for each weight."""

from typing import ClassVar

from regard.insight.views.base import View


class Spec(View):
    title: ClassVar[str] = "Lines"
    question: ClassVar[str] = "Which tokens does one token attend to, head by head?"
    order: ClassVar[int] = 10
    keyboard: ClassVar[str] = (
        "point at a token, or reach it with Tab and the arrow keys, to see only its lines. Click, "
        "Enter or Space pins it; Esc unpins it. ← and → go to the token with the strongest line. "
        "With a token pinned, a token on the other side shows the pair."
    )
