"""The command line as a user calls it, and one real demo, trained once for all tests."""

import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from regard.cli import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Call = Callable[..., Answer]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """`regard ARGUMENTS` with the given bytes on standard input, in this process."""

    def run(*arguments: object, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return Answer(int(left.value.code or 0), captured.out, captured.err)

    return run


@dataclass(frozen=True)
class Demo:
    folder: Path
    answer: Answer
    seconds: float


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Demo:
    """The real thing, in a process and a folder of its own: train, score, translate, page.

    Of several workers the first to need it makes it, the others wait, and each has its own copy.
    """
    base = tmp_path_factory.getbasetemp()
    home = (base if worker_id == "master" else base.parent) / "the-demo"
    home.mkdir(exist_ok=True)
    done = home / "done.json"
    with FileLock(home / "lock"):
        if not done.exists():
            done.write_text(json.dumps(_make_demo(home)))
    seconds, answer = json.loads(done.read_text())
    own = tmp_path_factory.mktemp("demo") / "runs" / "demo"
    shutil.copytree(home / "runs" / "demo", own)
    return Demo(own, Answer(**answer), seconds)


def _make_demo(home: Path) -> tuple[float, dict[str, object]]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "regard", "demo"], cwd=home, capture_output=True, text=True
    )
    answer = Answer(done.returncode, done.stdout, done.stderr)
    return time.monotonic() - began, asdict(answer)
