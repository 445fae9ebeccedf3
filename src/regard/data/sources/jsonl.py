"""A JSON object a line. Keys may lead inwards: `translation.fr` is `{"translation": {"fr": …}}`.

A side may be a list of texts, where the recipe says what of: `sentences` are joined to one text; of
several `versions` of a text the first is learned, and whoever scores may look at all of them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources.base import PairSpec
from regard.data.sources.lines import decode, stream_lines

Lists = Literal["sentences", "versions", "none"]


class Spec(PairSpec):
    """{kind: jsonl, path: pairs.jsonl, keys: [translation.fr, translation.en], languages: …}"""

    path: Path = Field(..., description="a JSON object a line; gzip or plain")
    keys: tuple[str, str] = Field(..., description="the key of each side, with dots inwards")
    lists: tuple[Lists, Lists] = Field(
        ("none", "none"), description="what a list on each side is of: sentences, versions, none"
    )

    @model_validator(mode="after")
    def _versions_come_second(self) -> Self:
        if self.lists[0] == "versions":
            raise ValueError("lists: only the second side may have versions; the first is read")
        return self

    def records(self) -> Iterator[Line]:
        for number, line in stream_lines(self.path):
            yield _record(line, Place(str(self.path), number), self.keys, self.lists)

    def files(self) -> list[Path]:
        return [self.path]


def _record(line: bytes, place: Place, keys: Sequence[str], lists: Sequence[Lists]) -> Line:
    values = values_at(line, place, keys)
    if isinstance(values, Rejected):
        return values
    others: tuple[str, ...] = ()
    for side, (value, what) in enumerate(zip(values, lists, strict=True)):
        if what == "none" or not isinstance(value, list):
            continue
        if not value or not all(isinstance(each, str) for each in value):
            return Rejected(place, "missing text", f"{keys[side]} is not a list of texts")
        values[side] = " ".join(value) if what == "sentences" else value[0]
        others = tuple(value[1:]) if what == "versions" else others
    made = texts_of(values, place, keys)
    return replace(made, others=others) if isinstance(made, Record) else made


def values_at(line: bytes, place: Place, keys: Sequence[str]) -> list[Any] | Rejected:
    """What the object in a line has at these keys, None where it has nothing."""
    text = decode(line, place)
    if isinstance(text, Rejected):
        return text
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Rejected(place, "bad JSON", str(error))
    return [_inside(content, key) for key in keys]


def texts_of(values: Sequence[Any], place: Place, keys: Sequence[str]) -> Line:
    """A record of what should be texts."""
    for key, value in zip(keys, values, strict=True):
        if not isinstance(value, str):
            found = f"there is no {key}" if value is None else f"{key} is a {type(value).__name__}"
            return Rejected(place, "missing text", found)
    return Record(place, tuple(values))


def _inside(content: Any, key: str) -> Any:
    for part in key.split("."):
        content = content.get(part) if isinstance(content, dict) else None
    return content
