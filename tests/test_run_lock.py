"""One process at a time writes a run folder; the others are told which one it is."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from regard import run_folder, run_lock
from regard.errors import OutputError

HOLD = """
import sys, time
from pathlib import Path
from regard.run_lock import lock
with lock(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock of a folder."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def test_a_second_process_is_told_who_has_the_lock(tmp_path: Path) -> None:
    process = hold(tmp_path / "run")
    try:
        with pytest.raises(OutputError) as caught, run_lock.lock(tmp_path / "run"):
            pass
        message = str(caught.value)
        assert f"run: process {process.pid} on {socket.gethostname()} is writing it" in message
        assert "wait until it ends" in message
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    # The lock of a killed process is taken over.
    assert (tmp_path / "run" / ".lock").exists()
    with run_lock.lock(tmp_path / "run"):
        owner = json.loads((tmp_path / "run" / ".lock").read_text())
        assert owner["pid"] == os.getpid()
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_folder_in_which_nothing_was_written_is_removed(tmp_path: Path) -> None:
    with run_lock.lock(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a").exists()
    with run_lock.lock(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "file").touch()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file"]


def test_the_lock_can_be_taken_again_by_its_thread_only(tmp_path: Path) -> None:
    messages = []

    def other() -> None:
        try:
            with run_lock.lock(tmp_path):
                pass
        except OutputError as error:
            messages.append(str(error))

    with run_lock.lock(tmp_path), run_lock.lock(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(messages) == 1
    assert f"process {os.getpid()} on" in messages[0]
    other()
    assert len(messages) == 1


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    with run_lock.lock(tmp_path):
        child = os.fork()
        if child == 0:
            try:
                with run_lock.lock(tmp_path):
                    os._exit(3)
            except OutputError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_that_leaves_the_block_keeps_the_lock_of_its_parent(tmp_path: Path) -> None:
    with run_lock.lock(tmp_path):
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            assert (tmp_path / run_lock.FILE).exists()
    if not child:
        os._exit(0)


def test_without_flock_the_content_of_the_file_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with run_lock.lock(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    owner = {"host": socket.gethostname(), "pid": ended.pid, "command": "", "start": "today"}
    (tmp_path / ".lock").write_text(json.dumps(owner))
    with run_lock.lock(tmp_path):
        pass
    (tmp_path / ".lock").write_text(json.dumps({**owner, "host": "elsewhere"}))
    message = f"process {ended.pid} on elsewhere .* or remove .*/.lock if that process no longer"
    with pytest.raises(OutputError, match=message), run_lock.lock(tmp_path):
        pass


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"), run_lock.lock(tmp_path / "file/a"):
        pass


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / ".step-000010.0a1b2c3d.partial").mkdir(parents=True)
    for name in (".metrics.jsonl.0a1b2c3d.partial", ".page.html.0a1b2c3d.partial", ".lock"):
        (tmp_path / name).touch()
    with run_folder.writing(tmp_path):
        assert not list((tmp_path / "checkpoints").iterdir())
    # A page may be written by a process that needs no lock.
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"checkpoints", ".page.html.0a1b2c3d.partial"}
