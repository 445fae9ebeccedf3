"""Two files whose lines belong together: line n of the one is the translation of line n there."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from pydantic import Field

from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources import characters
from regard.data.sources.base import PairSpec
from regard.data.sources.lines import decode, stream_lines
from regard.errors import DataError


class Spec(PairSpec):
    """{kind: files, source: train.fr.gz, target: train.en.gz, languages: [fr, en]}"""

    source: Path = Field(..., description="sentences, one a line; gzip or plain")
    target: Path = Field(..., description="their translations, on the same lines")

    def records(self) -> Iterator[Line]:
        lines = zip_longest(stream_lines(self.source), stream_lines(self.target))
        for first, second in lines:
            if first is None or second is None:
                raise _out_of_step(self.source, self.target)
            yield self._pair(first[0], first[1], second[1])

    def files(self) -> list[Path]:
        return [self.source, self.target]

    def _pair(self, number: int, first: bytes, second: bytes) -> Line:
        place = Place(str(self.source), number)
        source = decode(first, place)
        if isinstance(source, Rejected):
            return source
        target = decode(second, Place(str(self.target), number))
        if isinstance(target, Rejected):
            return target
        return Record(place, (source, target))


def _out_of_step(*paths: Path) -> DataError:
    """How many lines each file has, and the first place where another program saw one more."""
    counts, suspicion = [0, 0], ""
    for lines in zip_longest(*map(stream_lines, paths)):
        texts = ["" if line is None else line[1].decode(errors="replace") for line in lines]
        for side, line in enumerate(lines):
            counts[side] += line is not None
            if not suspicion and (odd := characters.LINE_END.search(texts[side])):
                suspicion = (
                    f"the first character that other programs take for the end of a line is "
                    f"{characters.name(odd[0])} at character {odd.start() + 1} of "
                    f"{Place(str(paths[side]), counts[side])}, where {characters.quote(texts[0])} "
                    f"stands beside {characters.quote(texts[1])}; mend it and split the texts anew"
                )
    return DataError(
        f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}: they are not "
        f"translations line by line; {suspicion or 'find the line that one has and the other not'}."
    )
