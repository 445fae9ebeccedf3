"""regard data: the data sets that recipes can name, and where they are."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from regard.data.datasets.catalog import Dataset


class Action(StrEnum):
    """An action on data sets."""

    LIST = "list"
    GET = "get"
    WHERE = "where"


def data(
    action: Annotated[
        Action,
        typer.Argument(help="list all, get (download and check), or where (print the folder)."),
    ] = Action.LIST,
    names: Annotated[list[str] | None, typer.Argument(help="Data sets, for get and where.")] = None,
) -> None:
    """List, download and find the data sets of the catalog, which recipes name.

    They are looked for in the folders of REGARD_DATA and in the user's cache (REGARD_CACHE), to
    which they are downloaded.
    """
    from regard.data.datasets.catalog import dataset_named, dataset_names
    from regard.errors import ConfigError

    if action is Action.LIST:
        if names:
            raise ConfigError("`regard data list` lists all data sets; leave out the names.")
        return _list([dataset_named(name) for name in dataset_names()])
    if not names:
        raise ConfigError(
            f"`regard data {action}` needs the name of a data set: `regard data list`."
        )
    try:
        datasets = [dataset_named(name) for name in names]
    except ValueError as error:
        raise ConfigError(f"{error}.") from None
    for dataset in datasets:
        _get(dataset) if action is Action.GET else _where(dataset)
    return None


def _list(datasets: "list[Dataset]") -> None:
    from rich.table import Table

    from regard.training.reporting.progress import plain_console

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("name", "task", "languages"):
        table.add_column(column, no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("license")
    table.add_column("here", no_wrap=True)
    for dataset in datasets:
        size, languages = f"{dataset.bytes / 1e6:,.1f}", " ".join(dataset.languages)
        row = (dataset.name, dataset.task, languages, size, dataset.license, _state(dataset))
        table.add_row(*row)
    plain_console().print(table)
    echo("Here: get = `regard data get NAME` downloads it; no = it has no address. MB: unpacked.")


def _state(dataset: "Dataset") -> str:
    """Return whether a data set is here, and if not, whether it can be downloaded."""
    from regard.data.datasets.folders import find_folder

    missing = [file for file in dataset.files if find_folder(dataset.name, [file]) is None]
    if not missing:
        return "yes"
    if len(missing) < len(dataset.files):
        return "in part"
    served = sum(bool(file.addresses) for file in missing)
    if served == len(missing):
        return "get"
    return "get in part" if served else "no"


def _get(dataset: "Dataset") -> None:
    from regard.cli._shared.console import reporter
    from regard.data.datasets.fetch import fetch

    folder = fetch(dataset, dataset.files, reporter())
    count = len(dataset.files)
    echo(f"{dataset.name}: {count} {'file' if count == 1 else 'files'} in {folder}, checked.")
    echo(f"License: {dataset.license}. Cite {dataset.citation}.")


def _where(dataset: "Dataset") -> None:
    from regard.data.datasets.fetch import not_here
    from regard.data.datasets.folders import find_folder
    from regard.errors import DataError

    folder = find_folder(dataset.name, dataset.files)
    if folder is None:
        missing = [file for file in dataset.files if not find_folder(dataset.name, [file])]
        raise DataError(f"{not_here(dataset, missing or dataset.files)}.")
    echo(str(folder))
