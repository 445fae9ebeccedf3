"""One or several files for each label: every line in them is a text with this label."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import RecordType, TextFileSpec
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.paths import files_at


class Spec(TextFileSpec):
    """{kind: by-file, classes: {positive: rt-polarity.pos, negative: rt-polarity.neg}}"""

    record_type: ClassVar[RecordType] = "labeled"

    classes: dict[str, Path | tuple[Path, ...]] = Field(
        ..., min_length=1, description="for each label: a file, a folder, or a list of them"
    )

    @field_validator("classes", mode="before")
    @classmethod
    def _check_labels(cls, value: Any) -> Any:
        for label in value if isinstance(value, dict) else ():
            if not isinstance(label, str) or label != label.strip() or not label:
                raise ValueError(f"a label is text, and {label!r} is not: write it in quotes")
        return value

    def records(self) -> Iterator[Line]:
        for label in self.classes:
            for file in self._files(label):
                for number, line in stream_lines(file, self.encoding):
                    location = Location(str(file), number)
                    text = decode(line, location)
                    if isinstance(text, Rejected):
                        yield text
                    else:
                        yield Record(location, (text,), labels=(label,))

    def files(self) -> list[Path]:
        return [file for label in self.classes for file in self._files(label)]

    def _files(self, label: str) -> list[Path]:
        value = self.classes[label]
        paths = value if isinstance(value, tuple) else (value,)
        return [file for path in paths for file in files_at(path, "*")]
