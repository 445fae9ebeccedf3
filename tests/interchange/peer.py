"""Other libraries that decode exported models, each in a process that is started once.

Two OpenMP runtimes in one process conflict, and importing these libraries takes seconds. A request
is a line of JSON with the arguments of `decode`; the answer is a line with the ids of each row.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

Ids = list[int]


@cache
def _process(program: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(program))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)  # closes its input, which ends it
    return process


def decode_exported(
    program: str, folder: Path, rows: list[Ids], tokens: int, beam: int = 1
) -> list[Ids]:
    """Return the ids that a program decodes with the exported model in a folder."""
    process = _process(program)
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"folder": str(folder), "rows": rows, "tokens": tokens, "beam": beam}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer: Any = json.loads(process.stdout.readline())
    assert isinstance(answer, list), answer
    return answer


def answer_requests(decode: Callable[..., list[Ids]]) -> None:
    """Answer the requests on standard input with `decode`; libraries may print to stderr only."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer: Any = decode(**json.loads(line))
        except Exception as error:
            answer = repr(error)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
