"""Fork processes that run `regard` commands: real processes, without importing anew for each.

Every line of standard input is a request, {"arguments": […], "folder": …}: a process runs
`regard ARGUMENTS` and the server writes its id to FOLDER/pid, what it wrote to standard error to
FOLDER/stderr, and its exit code to FOLDER/code when it has ended (−9: killed).
"""

import json
import os
import sys
from pathlib import Path

import regard.api  # noqa: F401  what the commands import
from regard.cli import main


def write(path: Path, content: int) -> None:
    """Write a number so that the file never exists without it."""
    partial = path.with_suffix(".partial")
    partial.write_text(str(content))
    partial.rename(path)


def run(arguments: list[str], stderr: Path) -> None:
    """Run a command in this process and end it."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
    sys.argv = ["regard", *arguments]
    main()


for line in sys.stdin:
    request = json.loads(line)
    folder = Path(request["folder"])
    process_id = os.fork()
    if process_id == 0:
        run(request["arguments"], folder / "stderr")
        break
    write(folder / "pid", process_id)
    write(folder / "code", os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]))
