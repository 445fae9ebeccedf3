"""Run several `regard` commands one after the other in the processes of one torchrun launch.

    torchrun … commands.py COMMANDS.json FOLDER

COMMANDS.json maps names to argument lists. Every process writes FOLDER/NAME-RANK.json for each
command: its exit code and what it wrote to standard error. Starting the processes once instead of
once per command saves their imports, the larger part of a small training.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from torch.distributed import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from regard.cli import main

Rendezvous = Iterator[tuple[Store, int, int]]


def under_prefix(prefix: str) -> Callable[[str], Rendezvous]:
    """Return a rendezvous whose keys differ from those of the groups of earlier commands."""

    def prefixed(url: str) -> Rendezvous:
        for store, rank, size in rendezvous(url):
            yield PrefixStore(prefix, store), rank, size

    return prefixed


def exit_code(arguments: list[str]) -> int:
    """Run one command as `regard ARGUMENTS` would."""
    sys.argv = ["regard", *arguments]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    commands: dict[str, list[str]] = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(sys.argv[2])
    del os.environ["TORCHELASTIC_RUN_ID"]  # with it, `main` would end the process
    for name, arguments in commands.items():
        with (
            patch("regard.training.distributed.world.rendezvous", under_prefix(name)),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()) as errors,
        ):
            code = exit_code(arguments)
        outcome = {"code": code, "stderr": errors.getvalue()}
        (folder / f"{name}-{os.environ['RANK']}.json").write_text(json.dumps(outcome))
    os._exit(0)  # as `main` does: threads of torch can abort the interpreter's shutdown
