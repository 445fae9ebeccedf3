"""Notice that another process of the run has failed or does not respond, whatever this one does.

A thread of each process counts up its heartbeat in the store, reads those of the others, and reads
whether one has failed. Collective operations wait for hours where they must (the main process
prepares data, or evaluates the finished model), and end within minutes if a process is lost:

- A process that ends closes its connections: the others' collective operations fail at once (gloo).
- A process that fails says so in the store. The main process, which has the store, then waits until
  the others have read it, so that they do not report its end as another error. One that waits for
  it, in an operation that does not fail by itself, is ended by its thread after `GRACE`.
- A process without a heartbeat for `LOST_AFTER` (stopped, or on a machine that is gone) is lost;
  the others are ended in the same way, and one names it.
"""

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from regard.errors import Interrupted

# Seconds. The longest pause seen in a heartbeat: a few seconds, while a call holds Python's lock.
INTERVAL = 2.0  # between heartbeats
LOST_AFTER = 300.0  # without a heartbeat
GRACE = 10.0  # for a process to end by itself

FAILED, READ_FAILED = "failed", "read failed"
REMEDY = "`regard resume` continues from the last checkpoint, with any number of processes."


@contextmanager
def watch_processes(store: Store, rank: int, size: int) -> "Iterator[Watch]":
    """Within, end this process if another one fails or is lost; report a failure of this one."""
    watch = Watch(store, rank, size)
    thread = Thread(target=watch.run, name="liveness", daemon=True)
    thread.start()
    try:
        yield watch
    except Interrupted:  # by all processes, at the same step
        raise
    except BaseException:
        _say_failed(store, rank, size)
        raise
    finally:
        watch.ended.set()
        thread.join(timeout=1.0)


def report_first(message: str, store: Store) -> bool:
    """Return True in the first process that has this message to report."""
    try:
        return store.add(f"reported: {message}", 1) == 1
    except dist.DistError:
        return True


def _say_failed(store: Store, rank: int, size: int) -> None:
    """Say that this process has failed; the main process waits for the others to read it."""
    try:
        if store.check([FAILED]):  # another one was first
            return
        store.set(FAILED, "")
        end = time.monotonic() + 2 * INTERVAL
        while rank == 0 and store.add(READ_FAILED, 0) < size - 1 and time.monotonic() < end:
            time.sleep(0.05)
    except dist.DistError:
        return


class Watch:
    """The thread's loop; it has its own connection to the store."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.store: Store = store.clone()  # type: ignore[attr-defined]
        self.rank = rank
        self.others = [other for other in range(size) if other != rank]
        self.heartbeats = dict.fromkeys(self.others, 0)
        self.silent = dict.fromkeys(self.others, 0)  # intervals since the last heartbeat
        self.ended = Event()  # this process has left the block
        self.read_failed = Event()  # another one has failed
        self.store.set(_name_key(rank), f"{socket.gethostname()}, process id {os.getpid()}")

    def has_failed(self) -> bool:
        """Return whether a process has failed with an error of its own, which it reports."""
        try:
            return self.read_failed.is_set() or self.store.check([FAILED])
        except dist.DistError:  # the process that has the store has ended
            return False

    def run(self) -> None:
        while not self.ended.wait(INTERVAL):
            try:
                self.store.add(_heartbeat_key(self.rank), 1)
                failed = self.store.check([FAILED])
                if failed:
                    self.read_failed.set()
                    self.store.add(READ_FAILED, 1)
                lost = self._lost()
            except dist.DistError:
                failed, lost = True, None  # the process that has the store has ended
            if failed or lost:
                self._end(lost)
                return

    def _lost(self) -> str | None:
        """Return a message about a process that is lost; None while there is none."""
        for other in self.others:
            heartbeat = self.store.add(_heartbeat_key(other), 0)
            # Counted in intervals of this process: a machine that slept has lost nobody.
            same = heartbeat == self.heartbeats[other]
            self.silent[other] = self.silent[other] + 1 if same else 0
            self.heartbeats[other] = heartbeat
            if self.silent[other] * INTERVAL >= LOST_AFTER:
                name = self.store.get(_name_key(other)).decode()
                return (
                    f"process {other} of this run ({name}) has not responded for "
                    f"{LOST_AFTER:,.0f} seconds, so all of them end; {REMEDY}"
                )
        return None

    def _end(self, message: str | None) -> None:
        """End this process, unless it ends by itself; its main thread may never return."""
        if message is None and self.ended.wait(GRACE):
            return
        if message is not None and report_first(message, self.store):
            print(f"regard: {message}", file=sys.stderr, flush=True)
        os._exit(1)


def _heartbeat_key(rank: int) -> str:
    return f"heartbeat of {rank}"


def _name_key(rank: int) -> str:
    return f"name of {rank}"
