"""The command line as a user calls it, the trained demo, and a language model.

The demo is trained once for all tests.
"""

import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from regard.cli import main
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier

from .fork_server import ForkServer
from .random_run import write_random_run

EN = "The animal didn't cross the street because it was too tired."
FR = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `regard ARGUMENTS` with bytes on standard input, in this process."""

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exit_info:
            main()
        captured = capsys.readouterr()
        return Result(int(exit_info.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run folder of a language model with random weights."""
    return write_random_run(
        tmp_path_factory.mktemp("language-model") / "run",
        "language-model",
        {"kind": "language-model", "size": "tiny", "max_length": 200},
        bpe.Spec(vocabulary=400).train([EN, FR]),
        {"max_length": 200},
    )


@dataclass(frozen=True)
class Demo:
    folder: Path
    result: Result
    seconds: float


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Demo:
    """Run `regard demo` in a process and a folder of its own.

    The first worker that needs it runs it, the others wait; every worker has its own copy.
    """
    base = tmp_path_factory.getbasetemp()
    home = (base if worker_id == "master" else base.parent) / "the-demo"
    home.mkdir(exist_ok=True)
    done = home / "done.json"
    with FileLock(home / "lock"):
        if not done.exists():
            done.write_text(json.dumps(_run_demo(home)))
    seconds, result = json.loads(done.read_text())
    own = tmp_path_factory.mktemp("demo") / "runs" / "demo"
    shutil.copytree(home / "runs" / "demo", own)
    return Demo(own, Result(**result), seconds)


def _run_demo(home: Path) -> tuple[float, dict[str, object]]:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "regard", "demo"], cwd=home, capture_output=True, text=True
    )
    result = Result(done.returncode, done.stdout, done.stderr)
    return time.monotonic() - start, asdict(result)


@pytest.fixture(scope="session")
def forked() -> Iterator[ForkServer]:
    """Run `regard ARGUMENTS` in a process of its own, with real standard streams."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run folder of a translator with random weights."""
    tokenizer = bpe.Spec(vocabulary=400).train([EN, FR], ["en", "fr"])
    guess = LanguageIdentifier.learn({"fr": [tokenizer.encode(FR)], "en": [tokenizer.encode(EN)]})
    return write_random_run(
        tmp_path_factory.mktemp("translator") / "run",
        "translation",
        {"kind": "encoder-decoder", "size": "tiny", "max_length": 60},
        tokenizer,
        {"directions": ["fr → en", "en → fr"], "max_length": 60},
        {"languages.json": guess.to_json()},
    )
