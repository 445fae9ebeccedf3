"""Kill processes with `kill -9` at random moments, finish their work, and compare the results.

    python benchmarks/kill.py --kills 200 --seed 1 --write

Each trial starts a command, kills its process group at a random moment, and starts the command that
continues it, until it ends by itself; then its result must be bit-identical to that of a process
that was left alone. After each kill, the run folder must hold no model or a whole one, and training
must resume at most one checkpoint interval before the last step.

Further trials run the commands on a full disk, in a read-only folder, with too little memory, and
with a clock that jumps: each must succeed or end with one sentence and exit code 1, and once the
obstacle is gone its result must be the same. Mounting needs root; without it these are skipped.

Processes are forked from one that has imported Regard, so that moments fall into the work.
"""

import argparse
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import machine, table, write_results

STEPS, LONGER, EVERY = 12, 24, 4  # steps of a run, of its continuation, between checkpoints
MAX_KILLS = 4  # of one trial; then it may end by itself
SHARES = {  # of the kills, by command
    "train": 0.2,
    "train, two processes": 0.1,
    "resume": 0.2,
    "prepare": 0.13,
    "translate -o": 0.13,
    "import": 0.08,
    "merge": 0.08,
    "export": 0.08,
}

IMPORTED = (  # before processes are forked
    "regard.api",
    "regard.cli",
    "regard.insight.heads",
    "regard.interchange.exports.huggingface",
    "regard.interchange.importing",
    "regard.training.init.merge_adapter",
    "matplotlib.backends.backend_svg",
    "torch._dynamo",
)


class CampaignError(Exception):
    """A result that is lost, different or without a sentence."""


# --- processes ------------------------------------------------------------------------------------


@dataclass
class Ended:
    """A process group that has ended."""

    code: int  # negative: the signal
    stderr: str
    seconds: float


def run_command(
    arguments: Sequence[object],
    home: Path,
    processes: int = 1,
    kill_after: float | None = None,
    before: Callable[[], None] = lambda: None,
) -> Ended:
    """Run `regard ARGUMENTS` in forked processes, as torchrun would; kill them after some seconds.

    `before` is called in each process first.
    """
    began, port = time.monotonic(), _free_port()
    children = []
    for rank in range(processes):
        stderr = home / f"stderr-{rank}"
        stderr.write_text("")
        if not (child := os.fork()):
            _become(arguments, stderr, rank, processes, port, before)
        children.append(child)
    codes = dict.fromkeys(children, None)
    while None in codes.values():
        for child in [child for child, code in codes.items() if code is None]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
        if kill_after is not None and time.monotonic() - began > kill_after:
            for child in [child for child, code in codes.items() if code is None]:
                os.kill(child, signal.SIGKILL)
            kill_after = None
        time.sleep(0.001)
    text = "".join((home / f"stderr-{rank}").read_text() for rank in range(processes))
    return Ended(
        min(codes.values(), key=abs, default=0)
        if not any(c < 0 for c in codes.values())
        else min(codes.values()),
        text,
        time.monotonic() - began,
    )


def _become(
    arguments: Sequence[object],
    stderr: Path,
    rank: int,
    processes: int,
    port: int,
    before: Callable[[], None],
) -> None:
    """Turn this forked process into one that runs a command; never return."""
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.argv = ["regard", *map(str, arguments)]
        if processes > 1:
            os.environ |= {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(processes),
                "TORCHELASTIC_RUN_ID": "kill",
            }
        import torch

        from regard.cli import main

        torch.set_num_threads(1)
        before()
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# --- commands -------------------------------------------------------------------------------------


@dataclass
class Trial:
    """A command in a folder of its own."""

    home: Path
    name: str
    seconds: float = 0.0  # that it takes undisturbed
    lost: list[int] = field(default_factory=list)  # steps computed again, by kill

    @property
    def run(self) -> Path:
        """The run folder, output folder or output file."""
        return self.home / ("lines.fr" if self.name == "translate -o" else "run")

    @property
    def processes(self) -> int:
        return 2 if "two" in self.name else 1

    def arguments(self, shared: Path) -> list[object]:
        """Return the command that begins the work or continues it."""
        match self.name:
            case "train" | "train, two processes" | "prepare":
                if (self.run / "training.json").exists():
                    return ["resume", self.run]
                recipe = "prepare" if self.name == "prepare" else "train"
                prepared = self.home / "prepared" if self.name == "prepare" else shared / "prepared"
                overrides = [f"data.prepared={prepared}"]
                return ["train", shared / f"{recipe}.yaml", *overrides, "--run", self.run]
            case "resume":
                return ["resume", self.run, f"training.steps={LONGER}"]
            case "translate -o":
                return [
                    "translate",
                    shared / "base",
                    shared / "lines.en",
                    "--to",
                    "fr",
                    "-o",
                    self.run,
                ]
            case "import":
                again = ["--overwrite"] if (self.run / "model.json").exists() else []
                return [
                    "import",
                    shared / "theirs",
                    "--languages",
                    "en-fr",
                    "--run",
                    self.run,
                    *again,
                ]
            case "merge":
                again = ["--overwrite"] if (self.run / "model.json").exists() else []
                return ["merge", shared / "adapter", "-o", self.run, *again]
            case "export":
                again = ["--overwrite"] if self.run.exists() else []
                return ["export", shared / "base", "--to", "huggingface", "-o", self.run, *again]
        raise ValueError(self.name)

    def start(self, shared: Path) -> None:
        """Make the folder; a run that is trained longer is there already."""
        self.home.mkdir(parents=True)
        if self.name == "resume":
            shutil.copytree(shared / "base", self.run)

    def check_whole(self, shared: Path) -> None:
        """Raise CampaignError where what is in the folder now is half written."""
        if self.name == "translate -o":
            return
        if self.name == "export":
            if self.run.exists() and result(self.run, self.name) is None:
                raise CampaignError("the exported folder is half written")
            return
        if self.name == "resume" and not (self.run / "model.json").exists():
            raise CampaignError("the earlier model is lost")
        if (self.run / "model.json").exists():
            check_model(self.run)


def check_model(run: Path) -> None:
    """Raise CampaignError where a file of a model does not match its checksum."""
    from regard import run_folder

    for name, checksum in json.loads((run / "model.json").read_text())["sha256"].items():
        path = run_folder.path_of(run, name)
        if not path.exists() or hash_of(path) != checksum:
            raise CampaignError(f"{path.name}: missing, or not as model.json says")


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def result(output: Path, name: str) -> dict[str, str] | None:
    """Return what a command produced: the hash of each file that must not depend on kills."""
    if not output.exists():
        return None
    if name == "translate -o":
        return {"lines": hash_of(output)}
    if name == "export":
        return {path.name: hash_of(path) for path in sorted(output.iterdir())}
    if not (output / "model.json").exists():
        return None
    manifest = json.loads((output / "model.json").read_text())
    found = dict(manifest["sha256"])
    metrics = output / "metrics.jsonl"
    if metrics.exists():
        events = [json.loads(line) for line in metrics.read_text().splitlines()]
        curve = [[e["step"], e.get("loss"), e.get("scores")] for e in events]
        found["metrics"] = hashlib.sha256(json.dumps(curve).encode()).hexdigest()
        lines = (output / "recipe.yaml").read_text().splitlines()
        kept = [line for line in lines if not line.startswith("  prepared: ")]  # of each trial
        found["recipe"] = hashlib.sha256("\n".join(kept).encode()).hexdigest()
    return found


def logged_step(run: Path) -> int:
    """Return the last step in metrics.jsonl."""
    path = run / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return int(json.loads(lines[-1])["step"]) if lines else 0


# --- setup ----------------------------------------------------------------------------------------


def recipe(pairs: Path, prepared: Path, steps: int) -> dict[str, Any]:
    languages = ["en", "fr"]
    return {
        "data": {
            "train": {"kind": "tsv", "path": str(pairs), "languages": languages},
            "prepared": str(prepared),
            "dev_size": 8,
        },
        "tokenizer": {"vocabulary": 400},
        "model": {
            "kind": "encoder-decoder",
            "layers": 1,
            "heads": 2,
            "dim": 32,
            "ffn_dim": 64,
            "max_length": 48,
        },
        "training": {
            "steps": steps,
            "batch_tokens": 400,
            "checkpoint_every": EVERY,
            "evaluation": {"every": STEPS, "select": "last"},
        },
    }


def set_up(shared: Path) -> None:
    """Write recipes and data, and make the runs that the commands read."""
    from regard.data.bundled import corpus

    sentences = corpus(0, 4000, 10, 10)
    lines = [f"{pair.english}\t{pair.french}" for pair in sentences.train]
    (shared / "few.tsv").write_text("\n".join(lines[:200]) + "\n")
    (shared / "many.tsv").write_text("\n".join(lines) + "\n")
    (shared / "lines.en").write_text("\n".join(p.english for p in sentences.train[:1200]) + "\n")
    train = recipe(shared / "few.tsv", shared / "prepared", STEPS)
    (shared / "train.yaml").write_text(json.dumps(train))
    prepare = recipe(shared / "many.tsv", shared / "prepared", 1)
    (shared / "prepare.yaml").write_text(json.dumps(prepare))
    adapter = {"data": train["data"], "training": {**train["training"], "steps": 2}}
    adapter |= {"init": str(shared / "base"), "adapter": {"kind": "lora", "rank": 2}}
    (shared / "adapter.yaml").write_text(json.dumps(adapter))
    for arguments in (
        ["train", shared / "train.yaml", "--run", shared / "base"],
        ["train", shared / "adapter.yaml", "--run", shared / "adapter"],
        ["export", shared / "base", "--to", "huggingface", "-o", shared / "theirs"],
    ):
        ended = run_command(arguments, shared)
        if ended.code != 0:
            raise CampaignError(f"{arguments[0]}: {ended.stderr}")


def expectations(shared: Path, home: Path) -> dict[str, tuple[dict[str, str], float]]:
    """Return result and seconds of each command when it is left alone."""
    expected = {}
    for name in SHARES:
        trial = Trial(home / name.replace(" ", "-"), name)
        trial.start(shared)
        ended = run_command(trial.arguments(shared), trial.home, trial.processes)
        found = result(trial.run, name)
        if ended.code != 0 or found is None:
            raise CampaignError(f"{name}: {ended.stderr}")
        expected[name] = (found, ended.seconds)
    return expected


# --- kills ----------------------------------------------------------------------------------------


def kill_trial(trial: Trial, shared: Path, rng: random.Random, most: int) -> int:
    """Kill a command up to `most` times, finish it, and return the number of kills."""
    trial.start(shared)
    kills = 0
    while True:
        last = kills >= min(most, MAX_KILLS)
        step, continued = logged_step(trial.run), (trial.run / "training.json").exists()
        moment = None if last else rng.uniform(0, trial.seconds)
        ended = run_command(trial.arguments(shared), trial.home, trial.processes, moment)
        if kills and trial.processes == 1 and continued and trial.name != "prepare":
            trial.lost.append(_lost(step, ended.stderr))
        trial.check_whole(shared)
        if ended.code == -signal.SIGKILL:
            kills += 1
            continue
        finished = kills and "finished at step" in ended.stderr  # killed after its last write
        if ended.code != 0 and not finished:
            raise CampaignError(f"{trial.name}: exit code {ended.code}: {ended.stderr[-2000:]}")
        return kills


def _lost(step: int, stderr: str) -> int:
    """Return how many steps are computed again; more than an interval is a failure."""
    _, found, rest = stderr.partition("Resuming from step ")
    if not found:
        return 0
    resumed = int(rest.split(".")[0].replace(",", ""))
    lost = max(0, step - resumed)
    if lost > EVERY:
        raise CampaignError(f"resumed from step {resumed}, although step {step} was done")
    return lost


def kill_campaign(
    shared: Path,
    home: Path,
    expected: Mapping[str, tuple[dict[str, str], float]],
    kills: int,
    rng: random.Random,
) -> tuple[dict[str, Any], list[str]]:
    """Return counts by command, and what went wrong."""
    counts, failures = {}, []
    for name, share in SHARES.items():
        wanted, done, trials, lost = max(1, round(kills * share)), 0, 0, [0]
        while done < wanted and trials < 5 * wanted:
            trial = Trial(home / f"{name.replace(' ', '-')}-{trials}", name, expected[name][1])
            trials += 1
            try:
                done += kill_trial(trial, shared, rng, wanted - done)
                if (found := result(trial.run, name)) != expected[name][0]:
                    raise CampaignError(f"{name}: {_difference(found, expected[name][0])} differs")
            except CampaignError as failure:
                failures.append(f"trial {trials} of {name}: {failure}")
                print(failures[-1], flush=True)
                done += 1
            lost += trial.lost
            shutil.rmtree(trial.home, ignore_errors=True)
        counts[name] = {"kills": done, "trials": trials, "lost": max(lost)}
        print(f"{name}: {done} kills in {trials} trials", flush=True)
    return counts, failures


def _difference(found: dict[str, str] | None, expected: Mapping[str, str]) -> str:
    if found is None:
        return "the result is missing and"
    return ", ".join(sorted(k for k in {*found, *expected} if found.get(k) != expected.get(k)))


# --- obstacles ------------------------------------------------------------------------------------


def mount(*arguments: object) -> bool:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True).returncode == 0


@contextmanager
def full_disk(home: Path, kilobytes: int) -> Iterator[Callable[[], None] | None]:
    """Yield a function that enlarges the disk; None where nothing can be mounted."""
    home.mkdir(parents=True)
    if not mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", home):
        yield None
        return
    try:
        yield lambda: mount("-o", "remount,size=200m", home) or None
    finally:
        subprocess.run(["umount", str(home)], check=True)


@contextmanager
def read_only(home: Path) -> Iterator[Callable[[], None] | None]:
    """Yield a function that makes the folder writable again; None where that is not permitted."""
    home.mkdir(parents=True, exist_ok=True)
    if not mount("--bind", home, home):
        yield None
        return
    try:
        mount("-o", "remount,bind,ro", home)
        yield lambda: mount("-o", "remount,bind,rw", home) or None
    finally:
        subprocess.run(["umount", str(home)], check=True)


def limit_memory(megabytes: int) -> Callable[[], None]:
    """Return a function that lets a process allocate only so much more than it has."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return limit


def jumping_clock(seed: int) -> Callable[[], None]:
    """Return a function that makes `time.time` jump by up to ten years at each call."""

    def jump() -> None:
        rng, now = random.Random(seed), time.time
        time.time = lambda: now() + rng.uniform(-1, 1) * 10 * 365 * 86400

    return jump


def age(folder: Path, rng: random.Random) -> None:
    """Date every file to somewhere between 1990 and 2090."""
    for path in folder.rglob("*"):
        when = rng.uniform(20, 120) * 365 * 86400
        os.utime(path, (when, when))


def check_sentence(ended: Ended) -> bool:
    """Return whether a command ended with one sentence; raise CampaignError for anything else."""
    if ended.code == 0:
        return False
    lines = ended.stderr.strip().splitlines()
    if ended.code != 1 or "Traceback" in ended.stderr or not lines:
        raise CampaignError(f"exit code {ended.code}: {ended.stderr[-1500:]}")
    sentences = [line for line in lines if line.startswith("regard: ")]
    if len(sentences) != 1:
        raise CampaignError(f"{len(sentences)} sentences: {ended.stderr[-1500:]}")
    return True


def obstacles(
    shared: Path,
    home: Path,
    expected: Mapping[str, tuple[dict[str, str], float]],
    seed: int,
    sizes: Sequence[int],
    memory: Sequence[int],
) -> tuple[dict[str, Any], list[str]]:
    """Run each command against each obstacle; return counts by obstacle, and what went wrong."""
    rng = random.Random(seed)
    counts: dict[str, Any] = {}
    failures: list[str] = []
    names = [name for name in SHARES if "two" not in name]

    def attempt(
        obstacle: str,
        name: str,
        where: Path,
        free: Callable[[], None],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        entry = counts.setdefault(obstacle, {"trials": 0, "sentences": 0})
        entry["trials"] += 1
        trial = Trial(where, name)
        try:
            ended = run_command(trial.arguments(shared), home, before=before)
            entry["sentences"] += check_sentence(ended)
            trial.check_whole(shared)
            free()
            if ended.code != 0:
                ended = run_command(trial.arguments(shared), home)
                if ended.code != 0:
                    raise CampaignError(f"cannot continue: {ended.stderr[-1500:]}")
            if (found := result(trial.run, name)) != expected[name][0]:
                raise CampaignError(f"{_difference(found, expected[name][0])} differs")
        except CampaignError as failure:
            failures.append(f"{obstacle}, {name}: {failure}")
            print(failures[-1], flush=True)

    for number, (name, size) in enumerate((n, s) for n in names for s in sizes):
        with full_disk(home / f"disk-{number}", size) as free:
            if free is None:
                counts["full disk"] = {"skipped": "mounting is not permitted"}
                break
            try:
                Trial(home / f"disk-{number}" / "trial", name).start(shared)
            except (OSError, shutil.Error):
                continue  # not even the run to continue fits
            attempt("full disk", name, home / f"disk-{number}" / "trial", free)
    for name in names:
        where = home / f"read-only-{name.replace(' ', '-')}"
        Trial(where, name).start(shared)
        with read_only(where) as free:
            if free is None:
                counts["read-only folder"] = {"skipped": "mounting is not permitted"}
                break
            attempt("read-only folder", name, where, free)
    for number, (name, megabytes) in enumerate((n, m) for n in names for m in memory):
        where = home / f"memory-{number}"
        Trial(where, name).start(shared)
        attempt("too little memory", name, where, lambda: None, limit_memory(megabytes))
    for number, name in enumerate(names):
        where = home / f"clock-{number}"
        Trial(where, name).start(shared)
        age(where, rng)
        attempt("jumping clock", name, where, lambda: None, jumping_clock(number))
    return counts, failures


# --- report ---------------------------------------------------------------------------------------


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of docs/explanation/robustness.md."""
    kills = [
        [
            f"`regard {name}`"
            if "," not in name and name != "prepare"
            else {"prepare": "`regard train`, while data are prepared"}.get(
                name, "`regard train`, two processes of torchrun"
            ),
            f"{row['kills']}",
            f"{row['trials']}",
            f"{row['lost'] or '–'}",
        ]
        for name, row in result["kills"].items()
    ]
    rows = [
        [
            name,
            *(
                [row["skipped"], ""]
                if "skipped" in row
                else [f"{row['trials']}", f"{row['sentences']}"]
            ),
        ]
        for name, row in result["obstacles"].items()
    ]
    total = sum(row["kills"] for row in result["kills"].values())
    failed, settings = len(result["failures"]), result["settings"]
    return f"""
## Kill

`python benchmarks/kill.py --kills {settings["kills"]} --seed {settings["seed"]}`

Each trial kills a command with `kill -9` at random moments, up to {MAX_KILLS} times, starts the
command that continues it, and compares its result with that of a process that was left alone.
{total} kills; {failed} results were lost, different or without a sentence. Checkpoints are
{EVERY} steps apart; the last column is the largest number of steps that had to be computed again.

{table(["command", "kills", "trials", "steps lost, at most"], kills)}

The same commands with an obstacle: each must succeed or end with one sentence and exit code 1, and
give the same result when it is started again without the obstacle.

{table(["obstacle", "trials", "ended with a sentence"], rows)}
"""


def campaign(kills: int, seed: int, sizes: Sequence[int], memory: Sequence[int]) -> dict[str, Any]:
    for module in IMPORTED:
        importlib.import_module(module)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing stays mounted
    with tempfile.TemporaryDirectory() as temporary:
        home, shared = Path(temporary).resolve(), Path(temporary).resolve() / "shared"
        shared.mkdir()
        began = time.monotonic()
        set_up(shared)
        expected = expectations(shared, home / "expected")
        rng = random.Random(seed)
        counts, failures = kill_campaign(shared, home / "kills", expected, kills, rng)
        obstacle_counts, more = obstacles(shared, home, expected, seed, sizes, memory)
    return {
        "settings": {"kills": kills, "seed": seed},
        "machine": machine(),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "kills": counts,
        "obstacles": obstacle_counts,
        "failures": [*failures, *more],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="number of kills (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    parser.add_argument("--write", action="store_true", help="write the results into the docs")
    options = parser.parse_args()
    result = campaign(options.kills, options.seed, (8, 64, 200, 400, 800, 1500), (0, 1, 4, 16, 64))
    section = describe(result)
    print(section, *result["failures"], sep="\n")
    if options.write:
        write_results("kill", result, section, page="robustness")
    if result["failures"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
