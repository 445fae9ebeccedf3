"""Train in two processes, one of which fails, stops or is killed, and write what became of both.

    python failures.py FOLDER RECIPE [CASE …]

For each case two processes are forked: the imports are done once. No launcher watches them, so
nothing but Regard itself ends a process that waits. Every case writes FOLDER/NAME-RANK.stderr, and
FOLDER/outcomes.json has the exit codes (negative: a signal) and seconds of all cases.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist

from regard.cli import main
from regard.run_lock import lock
from regard.training import checkpoint, trainer
from regard.training.distributed import liveness
from regard.training.tasks.translation import Translation

# Imported before processes are forked, not in each
for module in ("torch._dynamo", "torch.distributed.fsdp", "regard.api", "regard.training.recipe"):
    import_module(module)

EXPERTS = (
    "model.feed_forward={kind: moe, num_experts: 4}",
    "model.layers=1",
    "training.expert_parallel=true",
)
FSDP = ("training.fsdp=true",)
ENDLESS = ("training.steps=100000", "training.checkpoint_every=100000")
NO_EVALUATION = ("training.evaluation.every=100000",)
LIMIT = 120.0  # seconds; then a case is a hang, and its processes are killed
FILE_SIZE = 6144  # bytes; the files written at the start are smaller


def fill_disk() -> None:
    """Let every larger file fail to be written, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))


def exhaust_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**26
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    bytearray(2**30)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def fail_to_write() -> None:
    raise OSError(28, "No space left on device")


class Moment(NamedTuple):
    """A call of a function, before which something happens."""

    owner: Any
    name: str

    def attach(self, action: Callable[[], None]) -> None:
        function = getattr(self.owner, self.name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            action()
            return function(*args, **kwargs)

        setattr(self.owner, self.name, wrapped)


PREPARE, FIT, EVALUATE = (
    Moment(trainer, "prepare"),
    Moment(trainer, "_fit"),
    Moment(Translation, "evaluate"),
)
SHARDS, SEND = Moment(checkpoint, "_write_shards"), Moment(dist, "send")

# In this case the main process also prepares the data for longer than LOST_AFTER.
STOPPED = "stopped in sending experts"
LOST_AFTER = 4.0  # seconds; the machine may be busy
# In this case the launcher holds the lock of the run folder.
LOCKED = "run folder in use"
# Name: overrides, rank of the process, moment and what happens then
CASES: dict[str, tuple[tuple[str, ...], int, Moment, Callable[[], None]]] = {
    "no space for a shard": (FSDP, 1, SHARDS, fill_disk),
    "no space for metrics": ((*ENDLESS, *NO_EVALUATION), 0, FIT, fill_disk),
    "error in sending experts": (EXPERTS, 1, SEND, fail_to_write),
    "killed in sending experts": (EXPERTS, 1, SEND, kill),
    STOPPED: (EXPERTS, 1, SEND, stop),
    "out of memory in an evaluation": (FSDP, 1, EVALUATE, exhaust_memory),
    LOCKED: ((), 0, PREPARE, kill),
}


def run(case: str, rank: int, port: int, recipe: str, folder: Path) -> None:
    """Train in this process and end it."""
    overrides, failing, moment, action = CASES[case]
    if rank == failing:
        moment.attach(action)
    if case == STOPPED and rank == 0:
        PREPARE.attach(lambda: time.sleep(1.5 * LOST_AFTER))
    liveness.INTERVAL, liveness.LOST_AFTER, liveness.GRACE = 0.2, LOST_AFTER, 1.0
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(os.open(folder / f"{case}-{rank}.stderr", os.O_WRONLY | os.O_CREAT), 2)
    sys.argv = ["regard", "train", recipe, *overrides, "--run", str(folder / case)]
    main()


def fork(case: str, rank: int, port: int, recipe: str, folder: Path) -> int:
    process_id = os.fork()
    if process_id == 0:
        run(case, rank, port, recipe, folder)
        os._exit(0)
    return process_id


def exit_codes(process_ids: list[int]) -> list[int | None]:
    """Wait for all processes but stopped ones; kill those, and all at the limit (None)."""
    codes: dict[int, int | None] = {}
    deadline = time.monotonic() + LIMIT
    while len(codes) < len(process_ids):
        for process_id in set(process_ids) - set(codes):
            ended, status = os.waitpid(process_id, os.WNOHANG)
            if ended:
                codes[process_id] = os.waitstatus_to_exitcode(status)
        if len(codes) == 1 and _is_stopped(*(set(process_ids) - set(codes))):
            deadline = 0.0
        if time.monotonic() > deadline:
            for process_id in set(process_ids) - set(codes):
                os.kill(process_id, signal.SIGKILL)
                os.waitpid(process_id, 0)
                codes[process_id] = None
        time.sleep(0.02)
    return [codes[process_id] for process_id in process_ids]


def _is_stopped(process_id: int) -> bool:
    with suppress(FileNotFoundError):
        return "State:\tT" in Path(f"/proc/{process_id}/status").read_text()
    return False


if __name__ == "__main__":
    folder, recipe = Path(sys.argv[1]), sys.argv[2]
    outcomes = {}
    for case in sys.argv[3:] or CASES:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        port = store.port  # free, once the store is closed
        del store
        start = time.monotonic()
        with lock(folder / case) if case == LOCKED else nullcontext():
            codes = exit_codes([fork(case, rank, port, recipe, folder) for rank in range(2)])
        outcomes[case] = {"codes": codes, "seconds": time.monotonic() - start}
        (folder / "outcomes.json").write_text(json.dumps(outcomes))
