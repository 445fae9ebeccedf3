"""A file, or several, for each label: every line in them is a text that has this label."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources.base import RecordType, SourceSpec
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.paths import files_at


class Spec(SourceSpec):
    """{kind: by-file, classes: {positive: rt-polarity.pos, negative: rt-polarity.neg}}"""

    record_type: ClassVar[RecordType] = "labeled"

    classes: dict[str, Path | tuple[Path, ...]] = Field(
        ..., min_length=1, description="of each label: a file, a folder, or a list of them"
    )

    @field_validator("classes", mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if not isinstance(name, str) or name != name.strip() or not name:
                raise ValueError(f"a label is text, and {name!r} is not: write it in quotes")
        return given

    def records(self) -> Iterator[Line]:
        for label in self.classes:
            for file in self._files(label):
                for number, line in stream_lines(file):
                    place = Place(str(file), number)
                    text = decode(line, place)
                    if isinstance(text, Rejected):
                        yield text
                    else:
                        yield Record(place, (text,), labels=(label,))

    def files(self) -> list[Path]:
        return [file for label in self.classes for file in self._files(label)]

    def _files(self, label: str) -> list[Path]:
        paths = self.classes[label]
        each = paths if isinstance(paths, tuple) else (paths,)
        return [file for path in each for file in files_at(path, "*")]
