"""The catalog of data sets: one file each, `catalog/NAME.yaml`.

    title: …                     license, citation and homepage of the data set
    files:                       every file: size and checksum of its text, unpacked if it is gzip,
      - {path: train.fr.gz, bytes: 2111303, sha256: 5925…, url: https://…}      and its address
    languages: [fr, en]          of pairs: the languages that a recipe can choose two of
    splits:                      how each is read: the settings of a source
      train: {kind: files, source: "train.{source}.gz", target: "train.{target}.gz"}

An address is given only where the published file is known to have this checksum. A file of which
the languages are published apart has `paste: [https://…, https://…]` instead: their lines are
joined with a tab. A file without either was made from published ones in another way, as `note`
says.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from regard.config import Spec, read_yaml, validate
from regard.nearest import did_you_mean

FOLDER = Path(__file__).parent / "catalog"
LOCAL = ("localhost", "127.0.0.1", "[::1]")  # hosts of this machine, which need no encryption

# Settings of a source that name files, and those with a value for each language of a pair
FILE_KEYS = ("path", "source", "target", "classes")
LANGUAGE_KEYS = ("columns", "keys", "lists")


class DataFile(Spec):
    """{path: train.fr.gz, bytes: 2111303, sha256: 5925…, url: https://…}"""

    path: str = Field(..., pattern=r"^\w[\w./-]*$", description="path in the data set's folder")
    bytes: int = Field(..., gt=0, description="size of the text, unpacked")
    sha256: tuple[str, ...] = Field(
        ..., description="checksum of the text, unpacked; several if lines may be in other orders"
    )
    url: str | None = Field(None, description="address that it is downloaded from, plain or gzip")
    paste: tuple[str, ...] = Field(
        (), description="addresses of files whose lines, joined with a tab, are its lines"
    )

    @field_validator("sha256", mode="before")
    @classmethod
    def _wrap_single_checksum(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("url", "paste")
    @classmethod
    def _check_addresses(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if not all(map(is_safe, [value] if isinstance(value, str) else value or ())):
            raise ValueError("an address begins with https://")
        return value

    @model_validator(mode="after")
    def _check_paste(self) -> Self:
        if self.paste and (self.url is not None or len(self.paste) < 2):
            raise ValueError("a file has one url, or two addresses or more to paste")
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses that are needed to make the file; none if it cannot be downloaded."""
        return (self.url,) if self.url else self.paste


class Dataset(Spec):
    """A data set of the catalog."""

    name: str = Field(..., description="the name in recipes")
    title: str = Field(..., description="what it contains, in one line")
    task: str = Field(..., description="what it is for: translation, classification …")
    license: str = Field(..., description="terms of use")
    citation: str = Field(..., description="whom to cite")
    homepage: str = Field(..., description="address of its own page")
    note: str = Field("", description="how files without an address were made; what to beware of")
    files: tuple[DataFile, ...] = Field(..., description="its files")
    languages: tuple[str, ...] = Field((), description="languages to choose two of")
    splits: dict[str, dict[str, Any]] = Field(..., description="settings of a source, by split")

    @property
    def bytes(self) -> int:
        """Size of all files, unpacked."""
        return sum(file.bytes for file in self.files)

    def settings(self, split: str, languages: tuple[str, str] | None) -> dict[str, Any]:
        """Return the settings that read a split; paths are relative to the data set's folder.

        Raises ValueError for a split or languages that it does not have.
        """
        if split not in self.splits:
            raise ValueError(
                f"data set {self.name} has no split '{split}'"
                f"{did_you_mean(split, list(self.splits))}; splits: {', '.join(self.splits)}"
            )
        settings = self.splits[split]
        if not self.languages:
            if languages is not None:
                raise ValueError(f"data set {self.name} is not of pairs; leave out languages")
            return settings
        pair = self._pair(languages)
        names = dict(zip(("source", "target"), pair, strict=True))
        order = [self.languages.index(language) for language in pair]
        return {
            **{key: _in_language(key, value, names, order) for key, value in settings.items()},
            "languages": pair,
        }

    def _pair(self, languages: tuple[str, str] | None) -> tuple[str, ...]:
        known = ", ".join(self.languages)
        if languages is None and len(self.languages) > 2:
            raise ValueError(f"languages: choose two of those of data set {self.name}: {known}")
        pair = languages or self.languages
        for language in pair:
            if language not in self.languages:
                raise ValueError(
                    f"languages: data set {self.name} has no '{language}'; it has: {known}"
                )
        if len(set(pair)) < 2:
            raise ValueError(f"languages: two different ones are needed of: {known}")
        return pair

    def files_of(self, settings: Mapping[str, Any]) -> tuple[DataFile, ...]:
        """Return the files that settings read."""
        named = set(_texts([settings[key] for key in FILE_KEYS if key in settings]))
        return tuple(file for file in self.files if file.path in named)


def dataset_names() -> list[str]:
    """List the names of all data sets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def dataset_named(name: str) -> Dataset:
    """Return a data set of the catalog; raises ValueError if there is none of this name."""
    names = dataset_names()
    if name not in names:
        raise ValueError(
            f"there is no data set '{name}'{did_you_mean(name, names)}; data sets: "
            f"{', '.join(names)}"
        )
    path = FOLDER / f"{name}.yaml"
    return validate(Dataset, {"name": name, **read_yaml(path)}, str(path))


def is_safe(url: str) -> bool:
    """Return whether an address is encrypted, or of this machine."""
    hosts = "|".join(map(re.escape, LOCAL))
    return re.match(rf"https://|http://({hosts})(:\d+)?/", url) is not None


def _in_language(key: str, value: Any, names: Mapping[str, str], order: list[int]) -> Any:
    """Return a setting for two languages: with their names in paths, or in their order."""
    if key in FILE_KEYS and isinstance(value, str):
        return value.format_map(names)
    if key in LANGUAGE_KEYS:
        return [value[number] for number in order]
    return value


def _texts(value: Any) -> list[str]:
    """Return all texts in a value."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
