"""A text file with two columns, `sentence<TAB>translation`, one pair a line."""

from pathlib import Path

from pydantic import Field

from regard.data.lines import read_lines
from regard.data.sources import ParallelText, SourceSpec
from regard.errors import DataError


class Spec(SourceSpec):
    """data: {kind: tsv, train: pairs.tsv, held_out: dev.tsv, languages: [fr, en]}"""

    train: Path = Field(..., description="pairs to train on")
    held_out: Path = Field(..., description="pairs to score on")
    languages: tuple[str, str] = Field(..., description="the language of each column")

    def read(self) -> ParallelText:
        train = read_pairs(self.train)
        return ParallelText(
            languages=self.languages,
            train=train,
            held_out=read_pairs(self.held_out),
            about=f"{len(train):,} pairs of {self.train.name}",
        )


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Every line has two columns, both with text in them; the first that has not is named."""
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2 or not all(map(str.strip, columns)):
            raise DataError(
                f"{path}, line {number}: expected two columns of text separated by one tab, "
                f"found {line[:80]!r}."
            )
        pairs.append((columns[0], columns[1]))
    if not pairs:
        raise DataError(f"{path}: the file is empty.")
    return pairs
