"""Checks of a recipe that need no torch, made before it is imported: that takes seconds."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from regard.config import Spec, override, plain, read_yaml, validate
from regard.data.config import DataSpec
from regard.data.datasets.reports import SILENT, Reports
from regard.data.sources.paths import require_file


class _Data(Spec):
    data: DataSpec = Field(..., description="sources of the training, dev and test data")


def check_recipe(
    path: Path, overrides: Sequence[str], reports: Reports = SILENT, *, download: bool = False
) -> None:
    """Raise an error if recipe, overrides or data section are wrong, or a data file is missing.

    Data sets by name are downloaded only with `download`.
    """
    content = override(read_yaml(path), overrides)
    data = {"data": content["data"]} if content.get("data") is not None else {}
    sections = validate(_Data, data, str(path))
    for sources in sections.data.splits.values():
        plain(sources, require_file)
    sections.data.fetch(reports, download=download)
