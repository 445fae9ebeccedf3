"""A JSON object a line. Keys may lead inwards: `translation.fr` is `{"translation": {"fr": …}}`."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.data.lines import decode, stream_lines
from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources import PairSpec


class Spec(PairSpec):
    """{kind: jsonl, path: pairs.jsonl, keys: [translation.fr, translation.en], languages: …}"""

    path: Path = Field(..., description="a JSON object a line; gzip or plain")
    keys: tuple[str, str] = Field(..., description="the key of each side, with dots inwards")

    def records(self) -> Iterator[Line]:
        for number, line in stream_lines(self.path):
            yield _record(line, Place(str(self.path), number), self.keys)

    def files(self) -> list[Path]:
        return [self.path]


def _record(line: bytes, place: Place, keys: tuple[str, ...]) -> Line:
    values = values_at(line, place, keys)
    return values if isinstance(values, Rejected) else texts_of(values, place, keys)


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
