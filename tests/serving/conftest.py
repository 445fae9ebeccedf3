"""Small runs of every task, and real servers of them: `regard serve` in a process of its own."""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from regard.data.batches.spans import sentinel
from regard.data.tokenizers import bpe
from regard.data.tokenizers.language_id import LanguageIdentifier

from ..cli.random_run import write_random_run

EN = "The animal didn't cross the street because it was too tired."
FR = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
SMALL = {"dim": 32, "heads": 2, "ffn_dim": 48, "layers": 2, "max_length": 200}
BERT = {
    **SMALL,
    "norm_first": False,
    "position": "learned",
    "embedding_norm": True,
    "scale_embedding": False,
    "feed_forward": {"kind": "dense", "activation": "gelu"},
}
STARTING_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A server process that is ready."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path  # standard error
    client: httpx.Client

    def workers(self) -> dict[str, int]:
        """Return the process ids of the workers, by the name of their run folder."""
        workers = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                words = (folder / "cmdline").read_text().split("\0")
                if int(parent) == self.process.pid and "regard.serving.worker" in words:
                    workers[Path(words[words.index("regard.serving.worker") + 2]).name] = int(
                        folder.name
                    )
        return workers


@contextlib.contextmanager
def serving(log: Path, *arguments: object) -> Iterator[Server]:
    """Run `regard serve ARGUMENTS` on any free port until it is ready, and end it after use.

    Args:
        log: File of its standard error.
        arguments: Runs and options.
    """
    command = [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            url = _address(process, log)
            with httpx.Client(base_url=url, timeout=60) as client:
                _await_ready(client, log)
                yield Server(url, process, log, client)
        finally:
            process.terminate()
            process.wait(30)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    match = re.match(r"(http://\S+) serves ", line)
    assert match, f"{line}{log.read_text()}"
    return match[1]


def _await_ready(client: httpx.Client, log: Path) -> None:
    deadline = time.monotonic() + STARTING_SECONDS
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def wait_until(is_true: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return run folders with random weights: lm, masked, spans, classifier, encoder, summaries."""
    home = tmp_path_factory.mktemp("served")
    texts = [EN, FR]
    tokenizer = bpe.Spec(vocabulary=400).train(texts)
    with_mask = bpe.Spec(vocabulary=400).train(texts, ["mask"])
    with_sentinels = bpe.Spec(vocabulary=400).train(texts, [sentinel(n) for n in range(4)])
    long = {"max_length": 200}
    return {
        "lm": write_random_run(
            home / "lm", "language-model", {"kind": "language-model", **SMALL}, tokenizer, long
        ),
        "masked": write_random_run(
            home / "masked", "masked-lm", {"kind": "masked-lm", **BERT}, with_mask, long
        ),
        "spans": write_random_run(
            home / "spans",
            "span-corruption",
            {"kind": "encoder-decoder", **SMALL},
            with_sentinels,
            {**long, "sentinels": 4},
        ),
        "classifier": write_random_run(
            home / "classifier",
            "classification",
            {"kind": "classifier", "classes": 2, **SMALL},
            tokenizer,
            {**long, "labels": ["negative", "positive"]},
        ),
        "encoder": write_random_run(
            home / "encoder", "encoder", {"kind": "encoder", **BERT}, tokenizer, long
        ),
        "summaries": write_random_run(
            home / "summaries",
            "summarization",
            {"kind": "encoder-decoder", **SMALL},
            tokenizer,
            {**long, "max_summary_tokens": 20, "truncate_source": None},
        ),
    }


def write_translator(folder: Path, seed: int = 0) -> Path:
    """Write the run folder of a small translator with random weights."""
    tokenizer = bpe.Spec(vocabulary=400).train([EN, FR], ["en", "fr"])
    guess = LanguageIdentifier.learn({"fr": [tokenizer.encode(FR)], "en": [tokenizer.encode(EN)]})
    return write_random_run(
        folder,
        "translation",
        {"kind": "encoder-decoder", **SMALL},
        tokenizer,
        {"directions": ["fr → en", "en → fr"], "max_length": 200},
        {"languages.json": guess.to_json()},
        seed,
    )


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, runs: Mapping[str, Path]) -> Iterator[Server]:
    """Serve fr-en of the package and the small runs; `server.url` is the address."""
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(log, "fr-en", *runs.values()) as running:
        yield running
