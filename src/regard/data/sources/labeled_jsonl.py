"""A JSON object a line: a text or two, and a label, or a list of them."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from regard.data.records import Line, Place, Rejected
from regard.data.sources.base import LabeledSpec
from regard.data.sources.jsonl import texts_of, values_at
from regard.data.sources.lines import stream_lines


class Spec(LabeledSpec):
    """{kind: labeled-jsonl, path: reviews.jsonl, keys: [text, label]}"""

    path: Path = Field(..., description="a JSON object a line; gzip or plain")
    keys: tuple[str, ...] = Field(
        ("text", "label"),
        min_length=2,
        max_length=3,
        description="of the text (or both) and, last, the label or labels, with dots inwards",
    )

    @property
    def num_texts(self) -> int:
        return len(self.keys) - 1

    def records(self) -> Iterator[Line]:
        for number, line in stream_lines(self.path):
            yield self._record(line, Place(str(self.path), number))

    def files(self) -> list[Path]:
        return [self.path]

    def _record(self, line: bytes, place: Place) -> Line:
        values = values_at(line, place, self.keys)
        if isinstance(values, Rejected):
            return values
        *texts, given = values
        record = texts_of(texts, place, self.keys[:-1])
        if isinstance(record, Rejected):
            return record
        labels = given if isinstance(given, list) else [given]
        for label in labels:
            if isinstance(label, bool) or not isinstance(label, int | str):
                found = "nothing" if label is None else f"a {type(label).__name__}"
                return Rejected(place, "missing label", f"{self.keys[-1]} is {found}")
        written = str(given) if labels is not given else list(map(str, labels))
        return self.labelled(place, record.texts, written)
