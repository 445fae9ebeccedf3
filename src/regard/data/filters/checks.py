"""What a record must be to be learned from. Each check names what it found, and where."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from regard.config import Spec
from regard.data.records import Place, Record, Rejected
from regard.data.sources.base import RecordType
from regard.data.sources.characters import ODD, SURROGATE, name

Action = Literal["drop", "keep"]

# "OK" may well stand for a whole phrase: in what is as short as this, lengths tell nothing.
SHORT = 20
SIDES = {
    "pair": ("first side", "second side"),
    "labeled": ("text", "second text"),
    "text": ("line",),
}
# Which setting lets more of it pass.
SETTINGS = {
    "length ratio": "max_ratio",
    "too long": "max_characters",
    "odd character": "odd_characters",
}


class FiltersSpec(Spec):
    """filters: {max_ratio: 5, odd_characters: keep}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "held_out": "eval_overlap",
        "max_lost": "max_dropped",
    }

    max_ratio: float = Field(
        9.0, gt=1, description="of the characters of a pair's longer side to its shorter side's"
    )
    max_characters: int = Field(10_000, gt=0, description="of one side of a pair, at most")
    odd_characters: Action = Field("drop", description="what has control characters and the like")
    duplicates: Action = Field("drop", description="what has been read before")
    eval_overlap: Action = Field("drop", description="what is trained on and also held out")
    max_dropped: float = Field(
        0.1, ge=0, le=1, description="the share of lines that may be lost; more ends the run"
    )


def check(record: Record, spec: FiltersSpec, record_type: RecordType) -> Rejected | None:
    """Why a record must be dropped, the first reason there is; None if it may be kept.

    Running text is asked for odd characters only: it may have blank lines and long ones.
    """
    # What is half a character cannot be kept: nothing that writes UTF-8 would take it.
    odd = ODD if spec.odd_characters == "drop" else SURROGATE
    for side, text in zip(SIDES[record_type], record.texts, strict=False):
        if found := odd.search(text):
            return _odd(record, side, text, found.start())
        if record_type == "text":
            continue
        if not text or text.isspace():
            return Rejected(record.place, "empty side", f"the {side} has no text")
        if len(text) > spec.max_characters:
            return Rejected(record.place, "too long", f"the {side} has {len(text):,} characters")
    for label in record.labels or ():
        if found := odd.search(label):
            return _odd(record, "label", label, found.start())
    return _check_ratio(record, spec.max_ratio) if record_type == "pair" else None


def _check_ratio(record: Record, limit: float) -> Rejected | None:
    first, second = map(len, record.texts)
    longer, shorter = (first, second) if first > second else (second, first)
    if longer <= SHORT or longer <= limit * shorter:
        return None
    return Rejected(record.place, "length ratio", f"{first:,} and {second:,} characters")


def _odd(record: Record, side: str, text: str, at: int) -> Rejected:
    """In running text the line is named that it stands on, of the many that a record holds."""
    place, begins = record.place, 0
    if side == "line":
        place = Place(place.file, place.line + text.count("\n", 0, at))
        begins = text.rfind("\n", 0, at) + 1
    found = f"{name(text[at])} at character {at - begins + 1} of the {side}"
    return Rejected(place, "odd character", found)
