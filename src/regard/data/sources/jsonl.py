"""One JSON object in each line; nested keys with dots: `translation.fr` of {"translation": …}.

A value may be a list of texts, where the recipe says what it contains: `sentences` are joined to
one text; of several `versions` of a text the first is learned, and evaluation may use all of them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import PairSpec, TextFileSpec
from regard.data.sources.lines import decode, stream_lines

ListContent = Literal["sentences", "versions", "none"]


class Spec(TextFileSpec, PairSpec):
    """{kind: jsonl, path: pairs.jsonl, keys: [translation.fr, translation.en], languages: …}"""

    path: Path = Field(..., description="one JSON object in each line; gzip or plain")
    keys: tuple[str, str] = Field(..., description="key of each text; dots for nested keys")
    lists: tuple[ListContent, ListContent] = Field(
        ("none", "none"), description="content of a list as value: sentences, versions, none"
    )

    @model_validator(mode="after")
    def _check_versions(self) -> Self:
        if self.lists[0] == "versions":
            raise ValueError("lists: only the second text may have versions")
        return self

    def records(self) -> Iterator[Line]:
        for number, line in stream_lines(self.path, self.encoding):
            yield _record(line, Location(str(self.path), number), self.keys, self.lists)

    def files(self) -> list[Path]:
        return [self.path]


def _record(
    line: bytes, location: Location, keys: Sequence[str], lists: Sequence[ListContent]
) -> Line:
    values = read_values(line, location, keys)
    if isinstance(values, Rejected):
        return values
    alternatives: tuple[str, ...] = ()
    for side, (value, content) in enumerate(zip(values, lists, strict=True)):
        if content == "none" or not isinstance(value, list):
            continue
        if not value or not all(isinstance(text, str) for text in value):
            return Rejected(location, "missing text", f"{keys[side]} is not a list of texts")
        values[side] = " ".join(value) if content == "sentences" else value[0]
        alternatives = tuple(value[1:]) if content == "versions" else alternatives
    record = record_of(values, location, keys)
    return replace(record, alternatives=alternatives) if isinstance(record, Record) else record


def read_values(line: bytes, location: Location, keys: Sequence[str]) -> list[Any] | Rejected:
    """Return the values of the object in a line at these keys, None where there is none."""
    text = decode(line, location)
    if isinstance(text, Rejected):
        return text
    try:
        content = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        return Rejected(location, "bad JSON", str(error))
    return [_lookup(content, key) for key in keys]


def _object(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError where a key is there twice."""
    content = dict(items)
    if len(content) < len(items):
        keys = [key for key, _ in items]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} is there twice")
    return content


def record_of(values: Sequence[Any], location: Location, keys: Sequence[str]) -> Line:
    """Return a record of values that must be texts."""
    for key, value in zip(keys, values, strict=True):
        if not isinstance(value, str):
            kind = f"there is no {key}" if value is None else f"{key} is a {type(value).__name__}"
            return Rejected(location, "missing text", kind)
    return Record(location, tuple(values))


def _lookup(content: Any, key: str) -> Any:
    for name in key.split("."):
        content = content.get(name) if isinstance(content, dict) else None
    return content
