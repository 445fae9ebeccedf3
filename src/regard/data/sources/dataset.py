"""A data set of the catalog by its name: found, or downloaded, when it is first read.

A recipe with a data set is read as the source that the catalog has for its split, and written with
the name, so that the run can be trained on another machine. Reading a recipe downloads nothing.
"""

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from regard.data.datasets.catalog import FILE_KEYS, DataFile, Dataset, dataset_named
from regard.data.datasets.fetch import fetch, not_here
from regard.data.datasets.folders import download_folder, find_folder
from regard.data.datasets.reports import SILENT, Reports
from regard.data.sources.base import SourceSpec
from regard.errors import DataError

OF_CATALOG = (*FILE_KEYS, "kind", "languages", "weight")  # settings that have no other value


class Spec(SourceSpec):
    """{kind: dataset, name: multi30k, split: train, languages: [fr, en]}"""

    name: str = Field(..., description="name in the catalog: `regard data list`")
    split: str = Field("train", description="split of the data set")
    languages: tuple[str, str] | None = Field(
        None, description="of pairs: two languages that it has (default: if it has two, these)"
    )
    settings: dict[str, Any] = Field(
        {}, description="other settings of the source that reads it, as {documents: line}"
    )

    @model_validator(mode="after")
    def _resolve(self) -> Any:
        """Return the source that reads the split."""
        for key in self.settings:
            if key in OF_CATALOG:
                raise ValueError(f"settings: the catalog has the value of {key}; leave it out")
        dataset, settings, files = self._split()
        folder = find_folder(dataset.name, files) or download_folder(dataset.name)
        paths = {key: _below(folder, settings[key]) for key in FILE_KEYS if key in settings}
        source = SourceSpec.model_validate(
            {**settings, **paths, **self.settings, "weight": self.weight}
        )
        source._dataset = self
        return source

    @property
    def terms(self) -> str:
        dataset = dataset_named(self.name)
        return f"Data set {dataset.name} ({dataset.license}): cite {dataset.citation}."

    def fetch(self, key: str, reports: Reports = SILENT, *, download: bool = True) -> None:
        dataset, _, files = self._split()
        if not download and find_folder(dataset.name, files) is None:
            raise DataError(f"{key}: {not_here(dataset, files)}.")
        fetch(dataset, files, reports, f"{key}: ")

    def _split(self) -> tuple[Dataset, dict[str, Any], tuple[DataFile, ...]]:
        """Return the data set, the settings that read the split, and the files that they read."""
        dataset = dataset_named(self.name)
        settings = dataset.settings(self.split, self.languages)
        return dataset, settings, dataset.files_of(settings)


def _below(folder: Path, value: Any) -> Any:
    """Return the paths in a setting as paths in the folder."""
    if isinstance(value, dict):
        return {key: _below(folder, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_below(folder, item) for item in value]
    return folder / value
