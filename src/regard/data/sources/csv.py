"""A CSV file with columns, `sentence,translation`, one pair a record."""

from pathlib import Path

from pydantic import Field

from regard.data.sources import tsv
from regard.data.sources.csv_table import CsvSpec


class Spec(CsvSpec, tsv.Spec):
    """{kind: csv, path: pairs.csv, header: true, columns: [fr, en], languages: [fr, en]}"""

    path: Path = Field(..., description="a CSV file, with quotes where needed; gzip or plain")
