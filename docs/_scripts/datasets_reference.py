"""The data sets of the catalog: splits, sizes, terms, citations and addresses."""

from collections.abc import Iterator

import yaml

from formatting import code, escape, table
from regard.data.datasets.catalog import DataFile, Dataset, dataset_named, dataset_names

INTRODUCTION = """# Data sets

Data sets that recipes can name: [`kind: dataset`](../how-to/data.md#data-sets-by-name).
Observe their terms, and cite their authors wherever a result is shown. Sizes are those of the
unpacked text. Files with an address are downloaded (*pasted*: from several, the lines of which are
joined with a tab); the others were made from published ones, as the note says, and have to be put
into place. Generated from the catalog.
"""


def page() -> str:
    """Return the page as Markdown."""
    datasets = [dataset_named(name) for name in dataset_names()]
    rows = (
        (
            f"[{code(dataset.name)}](#{dataset.name})",
            escape(dataset.title),
            dataset.task,
            f"{dataset.bytes / 1e6:,.1f}",
            escape(dataset.license),
            _downloads(dataset),
        )
        for dataset in datasets
    )
    head = ("name", "", "task", "MB", "license", "download")
    sections = (block for dataset in datasets for block in _section(dataset))
    return "\n\n".join((INTRODUCTION, table(head, rows), *sections)) + "\n"


def _downloads(dataset: Dataset) -> str:
    addresses = sum(bool(file.addresses) for file in dataset.files)
    if addresses == len(dataset.files):
        return "yes"
    return "in part" if addresses else "no"


def _section(dataset: Dataset) -> Iterator[str]:
    yield f"## {code(dataset.name)} {{#{dataset.name}}}"
    languages = ", ".join(map(code, dataset.languages))
    yield f"{escape(dataset.title)}.{f' Languages: {languages}.' if languages else ''}"
    yield f"Cite: {escape(dataset.citation)}. License: {escape(dataset.license)}."
    yield f"<{dataset.homepage}>"
    if dataset.note:
        yield f"Note: {escape(dataset.note)}."
    rows = ((code(split), code(_yaml(settings))) for split, settings in dataset.splits.items())
    yield table(("split", "read as"), rows)
    files = ((code(f.path), f"{f.bytes:,}", _addresses(f)) for f in dataset.files)
    yield table(("file", "bytes, unpacked", "address"), files)


def _addresses(file: DataFile) -> str:
    listed = ", ".join(f"<{url}>" for url in file.addresses)
    return f"pasted: {listed}" if file.paste else listed


def _yaml(settings: dict[str, object]) -> str:
    text: str = yaml.safe_dump(settings, default_flow_style=True, sort_keys=False, width=10_000)
    return text.strip()
