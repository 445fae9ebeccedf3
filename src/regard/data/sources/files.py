"""Two parallel files: line n of one is the translation of line n of the other."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from pydantic import Field

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources import characters
from regard.data.sources.base import PairSpec, TextFileSpec
from regard.data.sources.lines import decode, stream_lines
from regard.errors import DataError


class Spec(TextFileSpec, PairSpec):
    """{kind: files, source: train.fr.gz, target: train.en.gz, languages: [fr, en]}"""

    source: Path = Field(..., description="one sentence in each line; gzip or plain")
    target: Path = Field(..., description="their translations, in the same lines")

    def records(self) -> Iterator[Line]:
        files = (stream_lines(file, self.encoding) for file in self.files())
        lines = zip_longest(*files)
        for first, second in lines:
            if first is None or second is None:
                raise _not_parallel(self.files(), self.encoding)
            yield self._pair(first[0], first[1], second[1])

    def files(self) -> list[Path]:
        return [self.source, self.target]

    def _pair(self, number: int, first: bytes, second: bytes) -> Line:
        location = Location(str(self.source), number)
        source = decode(first, location)
        if isinstance(source, Rejected):
            return source
        target = decode(second, Location(str(self.target), number))
        if isinstance(target, Rejected):
            return target
        return Record(location, (source, target))


def _not_parallel(paths: Sequence[Path], encoding: str | None) -> DataError:
    """Return an error with the line counts and the first character that may be a line end."""
    counts, suspicion = [0, 0], ""
    for lines in zip_longest(*(stream_lines(path, encoding) for path in paths)):
        texts = ["" if line is None else line[1].decode(errors="replace") for line in lines]
        for side, line in enumerate(lines):
            counts[side] += line is not None
            if not suspicion and (line_end := characters.LINE_END.search(texts[side])):
                suspicion = (
                    f"the first character that other programs treat as the end of a line is "
                    f"{characters.name(line_end[0])} at character {line_end.start() + 1} of "
                    f"{Location(str(paths[side]), counts[side])}, in the pair "
                    f"{characters.quote(texts[0])} and {characters.quote(texts[1])}; remove it and "
                    f"split the texts again"
                )
    return DataError(
        f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}: they are not "
        f"parallel; {suspicion or 'find the line that only one of them has'}."
    )
