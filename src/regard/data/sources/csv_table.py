"""CSV: cells with separators, quotes or newlines are quoted, and a quote is written twice.

A record may span several lines (RFC 4180); it is located at its first.
"""

import csv
from collections.abc import Iterator

from pydantic import Field

from regard.data.records import Location, Rejected
from regard.data.sources.characters import SURROGATE
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.table import Row, TableSpec
from regard.errors import DataError


class CsvSpec(TableSpec):
    """A kind of source that reads columns of a CSV file."""

    separator: str = Field(
        ",", min_length=1, max_length=1, description="character between columns, as ';'"
    )

    @property
    def other_formats(self) -> dict[str, str]:
        tabs = {"\t": 'there are tabs between the columns: set separator: "\\t"'}
        return {
            **{char: f"set separator: '{char}'" for char in ",;" if char != self.separator},
            **({} if self.separator == "\t" else tabs),
        }

    def rows(self) -> Iterator[Row | Rejected]:
        stream = stream_lines(self.path, self.encoding, keep_ends=True)
        # Bytes that are not UTF-8 become surrogates, which UTF-8 cannot have.
        lines = (line.decode("utf-8", "surrogateescape") for _, line in stream)
        reader, first = csv.reader(lines, delimiter=self.separator, strict=True), 1
        try:
            for cells in reader:
                yield self._row(Location(str(self.path), first), cells or [""])
                first = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{self.path}, line {first}: the record that starts here is not CSV ({error}); a "
                f"cell with a separator, quote or newline is written in quotes, and a quote in it "
                f'twice ("").'
            ) from None

    def _row(self, location: Location, cells: list[str]) -> Row | Rejected:
        text = self.separator.join(cells)
        if SURROGATE.search(text):
            rejected = decode(text.encode("utf-8", "surrogateescape"), location)
            assert isinstance(rejected, Rejected)
            return rejected
        return Row(location, cells)
