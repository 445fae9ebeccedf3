"""A lock on a run folder: one process at a time writes it.

The lock is `flock` on the file `.lock`, which names host, process, command and start. The kernel
releases it when its process ends, however it ends: a lock file that a killed process left behind is
simply taken over. On a file system without `flock` the content of the file decides: the lock of a
process of this host that no longer runs is taken over, and that of another host is refused with a
sentence that says which file to remove.
"""

import errno
import json
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from regard.errors import OutputError

FILE = ".lock"
HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)  # errors where another process has the lock
PAUSE = 0.2  # seconds between two attempts to take a lock

Say = Callable[[str], None]

_threads: dict[str, int] = {}  # the thread of this process that holds the lock, by folder
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.clear)  # a child does not hold it


@dataclass(frozen=True)
class Owner:
    """The process that holds a lock."""

    host: str
    pid: int
    command: str
    start: str

    @classmethod
    def this_process(cls) -> "Owner":
        """Describe the process that runs."""
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), os.getpid(), command, now)

    @classmethod
    def read(cls, path: Path) -> "Owner | None":
        """Read a lock file; None if its process has not written it yet."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def is_local(self) -> bool:
        """True if the process runs, or ran, on this host."""
        return self.host == socket.gethostname()

    @property
    def has_ended(self) -> bool:
        """True if the process was one of this host and no longer runs."""
        if not self.is_local or sys.platform == "win32":  # where signal 0 would end the process
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:  # a process of another user
            return False
        return False


@contextmanager
def lock(folder: Path, wait: Say | None = None) -> Iterator[None]:
    """Hold the lock of a folder, which is created, and removed again if nothing is written to it.

    The thread that holds the lock may take it again. Raises OutputError where another process or
    thread holds it, or where the folder cannot be written. With `wait`, waits until the other one
    ends, and calls it once with a sentence about that.
    """
    key = os.path.realpath(folder)
    if _threads.get(key) == threading.get_ident():
        yield
        return
    missing = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    try:
        handle = _acquire(folder, wait)
    except OSError as error:
        _remove_empty(missing)
        raise OutputError(
            f"{folder}: cannot be written ({error.strerror}); choose another folder."
        ) from None
    _threads[key] = threading.get_ident()
    try:
        yield
    finally:
        held = _threads.pop(key, None) is not None  # not in a child that was forked meanwhile
        if held:
            with suppress(OSError):  # removed before it is released: nobody else has locked it
                (folder / FILE).unlink()
        os.close(handle)
        if held:
            _remove_empty(missing)


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # it has content
            folder.rmdir()


def _acquire(folder: Path, wait: Say | None) -> int:
    """Return the handle of the locked file; where it is locked, wait or raise OutputError."""
    waited = False
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _flock(handle):
                if wait is None:
                    raise _locked(folder, Owner.read(folder / FILE))
                if not waited:
                    wait(f"{folder}: another process is writing it; waiting until it ends.")
                waited = True
                time.sleep(PAUSE)
            elif _is_at(handle, folder / FILE):
                owner = json.dumps(asdict(Owner.this_process())).encode()
                os.ftruncate(handle, 0)
                os.pwrite(handle, owner, 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # held, or removed by its holder before it was locked here: try again


def _locked(folder: Path, owner: Owner | None) -> OutputError:
    if owner is None:
        return OutputError(
            f"{folder}: another process is writing it; wait until it ends, or choose another "
            f"folder."
        )
    remedy = "" if owner.is_local else f", or remove {folder / FILE} if that process no longer runs"
    return OutputError(
        f"{folder}: process {owner.pid} on {owner.host} is writing it since {owner.start} "
        f"({owner.command}); wait until it ends, or choose another folder{remedy}."
    )


def _is_at(handle: int, path: Path) -> bool:
    """Return whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _flock(handle: int) -> bool:
        """Lock a byte far behind the content, which stays readable; False if it is locked."""
        os.lseek(handle, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _flock(handle: int) -> bool:
        """Lock the file; False if it is locked."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in HELD and _is_abandoned(handle)
        return True


def _is_abandoned(handle: int) -> bool:
    """Decide by the content of the file, on a file system without `flock`."""
    try:
        owner = Owner(**json.loads(os.pread(handle, 1 << 16, 0)))
    except (ValueError, TypeError):
        return True  # new
    return owner.has_ended
