"""A CSV file with columns, `text,label` or `text,text,label`, one example a record."""

from pathlib import Path

from pydantic import Field

from regard.data.sources import labeled
from regard.data.sources.csv_table import CsvSpec


class Spec(CsvSpec, labeled.Spec):
    """{kind: labeled-csv, path: reviews.csv, header: true, columns: [review, sentiment]}"""

    path: Path = Field(..., description="a CSV file, with quotes where needed; gzip or plain")
