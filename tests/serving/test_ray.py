"""`regard serve --ray` on a local cluster: replicas share the requests, and none is lost."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from .conftest import EN, wait_until

pytest.importorskip("ray", reason="ray is not installed: pip install 'regard[ray]' (400 MB)")

CLIENTS, REQUESTS = 8, 240
PROMPTS = [EN[:length] for length in range(8, 32)]


class RayServer:
    """A running `regard serve --ray` with its replicas.

    Args:
        process: The server.
        log: File of its standard error.
        client: Sends requests to it.
    """

    def __init__(self, process: "subprocess.Popen[str]", log: Path, client: httpx.Client) -> None:
        self._process = process
        self.log, self.client = log, client

    def replicas(self) -> list[int]:
        """Return the process ids of the replicas."""
        return sorted(_descendants(self._process.pid, "ServeReplica:regard:replica"))

    def complete(self, prompt: str) -> str:
        """Return a continuation."""
        answer = self.client.post("/v1/completions", json=_request(prompt))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["text"])

    def stream(self, prompt: str) -> str:
        """Return a continuation whose pieces are sent as they come."""
        body = _request(prompt) | {"stream": True}
        with self.client.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200
            data = answer.read().decode()
        *events, end = [line[6:] for line in data.splitlines() if line]
        assert end == "[DONE]"
        return "".join(json.loads(event)["choices"][0]["text"] for event in events)


def _descendants(ancestor: int, name: str) -> set[int]:
    """Return the processes of this name that a process or its descendants have started."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(status[1])
            names[int(folder.name)] = (folder / "cmdline").read_text()
    own = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return {pid for pid in own if name in names.get(pid, "")}


def _translate(server: RayServer) -> None:
    request = {"q": "Bonjour !", "source": "fr", "target": "en"}
    assert server.client.post("/translate", json=request).json() == {"translatedText": "Hello!"}


def _request(prompt: str) -> dict[str, object]:
    return {"model": "lm", "prompt": prompt, "max_tokens": 60, "temperature": 0}


@contextmanager
def serving_with_ray(log: Path, *arguments: object) -> Iterator[RayServer]:
    """Run `regard serve --ray ARGUMENTS` on any free port, and end it after use."""
    command = [
        sys.executable,
        "-m",
        "regard",
        "serve",
        *map(str, arguments),
        "--port",
        "0",
        "--ray",
    ]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            url, _, names = process.stdout.readline().partition(" serves ")
            assert names == "lm, fr-en, en-fr with Ray; Ctrl-C ends.\n", log.read_text()
            with httpx.Client(base_url=url, timeout=60) as client:
                yield RayServer(process, log, client)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


@pytest.fixture(scope="module")
def server(
    runs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RayServer]:
    log = tmp_path_factory.mktemp("ray") / "log"
    with serving_with_ray(log, runs["lm"], "fr-en", "--replicas", 2) as server:
        yield server


@pytest.mark.filterwarnings("ignore")  # of Ray, for pydantic
def test_application_is_built_from_plain_settings() -> None:
    from ray import serve

    from regard.serving.ray_serve import build

    arguments = {"runs": ["fr-en"], "replicas": "1:4", "max_active": 16}
    assert isinstance(build(arguments), serve.Application)


def test_several_models_are_served(server: RayServer) -> None:
    answer = server.client.post(
        "/translate", json={"q": "Bonjour !", "source": "fr", "target": "en"}
    )
    assert answer.json() == {"translatedText": "Hello!"}
    assert server.client.get("/readyz").status_code == 200
    models = server.client.get("/v1/models").json()["data"]
    assert [model["id"] for model in models] == ["lm", "fr-en", "en-fr"]
    refused = server.client.post("/v1/completions", json=_request("the") | {"max_tokens": 10_000})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "max_tokens"


@pytest.mark.parametrize("method", ["complete", "stream"])
def test_no_request_is_lost_when_a_replica_is_killed(server: RayServer, method: str) -> None:
    wait_until(lambda: len(server.replicas()) == 2, 60)
    expected = {prompt: server.complete(prompt) for prompt in PROMPTS}
    ask = getattr(server, method)
    done = threading.Semaphore(0)

    def answer(number: int) -> bool:
        prompt = PROMPTS[number % len(PROMPTS)]
        is_right = ask(prompt) == expected[prompt]
        done.release()
        return is_right

    before = server.replicas()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = [pool.submit(answer, number) for number in range(REQUESTS)]
        for _ in range(REQUESTS // 4):
            done.acquire()
        os.kill(before[0], signal.SIGKILL)
        assert all(future.result() for future in answers)
    wait_until(lambda: "its requests are sent again" in server.log.read_text(), 60)
    wait_until(lambda: len(set(server.replicas()) - {before[0]}) == 2, 60)


def test_replica_keeps_the_models_that_it_used_last(
    runs: Mapping[str, Path], tmp_path: Path
) -> None:
    with serving_with_ray(
        tmp_path / "log", runs["lm"], "fr-en", "--models-per-replica", 1
    ) as server:
        (replica,) = server.replicas()
        expected = server.complete(EN)
        (worker,) = _descendants(replica, "regard.serving.worker")
        _translate(server)
        wait_until(lambda: worker not in _descendants(replica, "regard.serving.worker"))
        assert server.complete(EN) == expected
