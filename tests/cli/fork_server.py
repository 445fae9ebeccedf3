"""Run commands in processes of their own, forked from one that has imported everything.

A process of its own has real standard streams, and importing torch takes seconds: one process
imports it, runs nothing, and forks a child for each request. Requests and answers are lines of
JSON; bytes are Latin-1 there, one character a byte.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULES = (
    "regard.cli",
    "regard.loading",
    "regard.cli._shared.console",
    "regard.insight.look",
    "regard.insight.heads",
    "regard.predictors.gettext",
    "regard.training.trainer",
    "regard.lab",
    "regard.evaluation.figures",
    "matplotlib.backends.backend_svg",
    "torch._dynamo",  # which torch's optimizers import
)


@dataclass(frozen=True)
class Finished:
    """A finished command; the code is negative for a signal."""

    code: int
    out: bytes
    err: str


class ForkServer:
    """The process that forks commands."""

    def __init__(self) -> None:
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(
        self,
        *arguments: object,
        stdin: bytes | None = b"",
        stdout: str | None = None,
        stderr: str | None = None,
        environment: Mapping[str, str] | None = None,
        memory: int | None = None,
        interrupt: bool = False,
        seconds: int = 60,
    ) -> Finished:
        """Run `regard ARGUMENTS` in an empty folder of its own.

        Args:
            arguments: Of the command line.
            stdin: Bytes of standard input; None closes it.
            stdout: A file to write to, "closed", or "pipe" for one that nobody reads.
            stderr: As stdout.
            environment: Changes to the environment of the streams' encoding.
            memory: Bytes of address space that it may take beyond those it has.
            interrupt: Wait for standard input, and press Ctrl-C.
            seconds: After which the command is killed.
        """
        request = {
            "arguments": [os.fsencode(str(argument)).decode("latin-1") for argument in arguments],
            "stdin": None if stdin is None else stdin.decode("latin-1"),
            "streams": [stdout, stderr],
            "environment": dict(environment or {}),
            "memory": memory,
            "interrupt": interrupt,
            "seconds": seconds,
        }
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        out, err = (text.encode("latin-1") for text in (answer["out"], answer["err"]))
        return Finished(answer["code"], out, err.decode("utf-8", "backslashreplace"))

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def serve() -> None:
    """Answer the requests on standard input."""
    import importlib

    for module in MODULES:
        importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryDirectory() as home,
    ):
        work = Path(home) / "work"  # whose parent is the command's own as well
        work.mkdir()
        child = os.fork()
        if not child:
            os.chdir(work)
            _run(request, (out.fileno(), err.fileno()))
        with _killed_after(child, request["seconds"]):
            status = os.waitpid(child, 0)[1]
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("latin-1"))
    return {"code": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1]}


@contextlib.contextmanager
def _killed_after(child: int, seconds: int) -> Iterator[None]:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(seconds)
    yield
    signal.alarm(0)


def _run(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Become the command; never return."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.environ.update(request["environment"])
    _redirect_input(request["stdin"])
    for descriptor, target, file in zip((1, 2), request["streams"], files, strict=True):
        _redirect(descriptor, target, file)
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    sys.stdin = _stream(0, "r", encoding, errors)  # type: ignore[assignment]
    sys.stdout = _stream(1, "w", encoding, errors)  # type: ignore[assignment]
    sys.stderr = _stream(2, "w", encoding, "backslashreplace")  # type: ignore[assignment]
    sys.argv = ["regard", *(os.fsdecode(text.encode("latin-1")) for text in request["arguments"])]
    if request["interrupt"]:
        os.dup2(os.pipe()[0], 0)
        threading.Thread(target=_interrupt_reading, daemon=True).start()
    if request["memory"]:
        _limit_memory(request["memory"])
    os._exit(_call_main())


def _interrupt_reading() -> None:
    """Press Ctrl-C once the main thread reads standard input: before, it may still be importing."""
    call = Path(f"/proc/self/task/{os.getpid()}/syscall")
    while True:
        number, first, *_ = [*call.read_text().split(), ""]
        if number in ("0", "63") and first == "0x0":  # read, of x86-64 and of arm64
            return os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)


def _limit_memory(more: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _call_main() -> int:
    from regard.cli import main

    code: Any = 0
    try:
        main()
    except SystemExit as done:
        code = done.code or 0
    try:  # as the interpreter does when it exits
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    return code if isinstance(code, int) else 1


def _redirect_input(data: str | None) -> None:
    if data is None:
        return os.close(0)
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(data.encode("latin-1"))
    file.seek(0)
    os.dup2(file.fileno(), 0)
    return None


def _redirect(descriptor: int, target: str | None, file: int) -> None:
    if target == "closed":
        os.close(descriptor)
    elif target == "pipe":
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, descriptor)
    elif target is not None:
        os.dup2(os.open(target, os.O_WRONLY), descriptor)
    else:
        os.dup2(file, descriptor)


def _stream(descriptor: int, mode: str, encoding: str, errors: str) -> Any:
    try:
        os.fstat(descriptor)
    except OSError:
        return None
    return open(descriptor, mode, encoding=encoding, errors=errors or None, closefd=False)


if __name__ == "__main__":
    serve()
