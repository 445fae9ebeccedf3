"""One JSON object in each line: one or two texts, and a label or a list of labels."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from regard.data.records import Line, Location, Rejected
from regard.data.sources.base import LabeledSpec, TextFileSpec
from regard.data.sources.jsonl import read_values, record_of
from regard.data.sources.lines import stream_lines


class Spec(TextFileSpec, LabeledSpec):
    """{kind: labeled-jsonl, path: reviews.jsonl, keys: [text, label]}"""

    path: Path = Field(..., description="one JSON object in each line; gzip or plain")
    keys: tuple[str, ...] = Field(
        ("text", "label"),
        min_length=2,
        max_length=3,
        description="keys of the text (or two texts) and, last, of the label; dots for nested keys",
    )

    @property
    def num_texts(self) -> int:
        return len(self.keys) - 1

    def records(self) -> Iterator[Line]:
        for number, line in stream_lines(self.path, self.encoding):
            yield self._record(line, Location(str(self.path), number))

    def unlabeled(self) -> Iterator[Line]:
        keys = self.keys[:-1]
        for number, line in stream_lines(self.path, self.encoding):
            location = Location(str(self.path), number)
            values = read_values(line, location, keys)
            yield values if isinstance(values, Rejected) else record_of(values, location, keys)

    def files(self) -> list[Path]:
        return [self.path]

    def _record(self, line: bytes, location: Location) -> Line:
        values = read_values(line, location, self.keys)
        if isinstance(values, Rejected):
            return values
        *texts, value = values
        record = record_of(texts, location, self.keys[:-1])
        if isinstance(record, Rejected):
            return record
        labels = value if isinstance(value, list) else [value]
        for label in labels:
            if isinstance(label, bool) or not isinstance(label, int | str):
                kind = "missing" if label is None else f"a {type(label).__name__}"
                return Rejected(location, "missing label", f"{self.keys[-1]} is {kind}")
        strings = str(value) if labels is not value else list(map(str, labels))
        return self.labeled_record(location, record.texts, strings)
