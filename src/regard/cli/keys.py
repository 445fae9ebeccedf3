"""regard keys: the API keys that `regard serve --keys` accepts."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.streams import echo


class Action(StrEnum):
    """An action on a file of keys."""

    ADD = "add"
    LIST = "list"
    REMOVE = "remove"


def keys(
    action: Annotated[
        Action,
        typer.Argument(help="add (prints a new key), list (the names), or remove (revokes a key)."),
    ],
    key_file: Annotated[
        Path, typer.Argument(help="File of `regard serve --keys`; add makes it if there is none.")
    ],
    name: Annotated[
        str | None, typer.Argument(help="Owner of the key, for add and remove; logs show it.")
    ] = None,
) -> None:
    """Add, list and revoke the API keys of a server.

    The file has a hash of each key, so a new key is shown once: give it to its owner. A running
    server reads the file again when it changes.
    """
    from regard.errors import ConfigError
    from regard.serving.key_file import add_key, read_keys, remove_key

    if action is Action.LIST:
        if name is not None:
            raise ConfigError("`regard keys list` lists all names; leave out the name.")
        for owner in read_keys(key_file).hashes:
            echo(owner)
        return
    if name is None:
        raise ConfigError(f"`regard keys {action}` needs the name of the key's owner.")
    if action is Action.ADD:
        echo(add_key(key_file, name))
    else:
        remove_key(key_file, name)
