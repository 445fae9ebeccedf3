"""Fill the blanks of texts: [MASK], <mask>, ___, or the model's own mask token."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from regard.serving.tasks.base import MAX_TEXTS, TaskContext

if TYPE_CHECKING:
    from regard.predictors.mask_filler import Filling, MaskFiller
    from regard.predictors.span_filler import SpanFiller

PREDICTORS = ("MaskFiller", "SpanFiller")
MAX_TOP = 1000


class Arguments(BaseModel, extra="forbid"):
    """Texts with blanks."""

    texts: list[str] = Field(max_length=MAX_TEXTS)
    top: int = Field(5, ge=1, le=MAX_TOP)  # candidates for each blank


class Fill(BaseModel):
    """A candidate for a blank."""

    text: str
    probability: float
    sequence: str  # the text with this blank filled
    token: int | None = None  # id, if the candidate is one token


class Result(BaseModel):
    """Candidates for each blank of each text, best first."""

    fills: list[list[list[Fill]]]
    input_tokens: int


def run(predictor: "MaskFiller | SpanFiller", arguments: Arguments, context: TaskContext) -> Result:
    """Fill the blanks of each text."""
    fills, tokens = [], 0
    own_blanks = re.compile("|".join(map(re.escape, _own_blanks(predictor))))
    for number, text in enumerate(arguments.texts, start=1):
        context.check()
        text = own_blanks.sub("[MASK]", text)
        blanks = predictor.fill(text, arguments.top, number)
        tokens += len(predictor.encode(text, number))
        fills.append(_with_sequences(text, blanks))
    return Result(fills=fills, input_tokens=tokens)


def _own_blanks(predictor: "MaskFiller | SpanFiller") -> list[str]:
    """Return the tokens that stand for blanks in the model's own vocabulary."""
    from regard.predictors.mask_filler import MaskFiller

    ids = [predictor.mask] if isinstance(predictor, MaskFiller) else predictor.sentinels
    return predictor.tokenizer.pieces(ids)


def _with_sequences(text: str, blanks: "Sequence[Sequence[Filling]]") -> list[list[Fill]]:
    from regard.predictors.mask_filler import BLANK

    places = [match.span() for match in BLANK.finditer(text)]
    return [
        [
            Fill(
                text=filling.text,
                probability=filling.probability,
                sequence=_filled(text[:start], filling.text, text[end:]),
                token=filling.token,
            )
            for filling in fillings
        ]
        for (start, end), fillings in zip(places, blanks, strict=True)
    ]


def _filled(before: str, filling: str, after: str) -> str:
    """Return a text with a filling; one that continues the word before it has no space."""
    from regard.predictors.mask_filler import CONTINUES

    if filling.startswith(CONTINUES) and len(filling) > len(CONTINUES):
        return before.rstrip() + filling.removeprefix(CONTINUES) + after
    return before + filling + after
