"""The command: its address, its refusals, its start and its end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from regard.cli._shared.sizes import parse_size
from regard.errors import ConfigError

from .conftest import Server, serving, wait_until

LONG = " ".join(["Le chat dort sur la chaise, et le chien court dans le jardin."] * 200)
TRANSLATE = "/translate"


def refused(*arguments: str) -> str:
    """Run `regard serve` with arguments that it refuses; return the sentence."""
    command = [sys.executable, "-m", "regard", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_what_cannot_be_served_is_refused_in_one_sentence(tmp_path: Path) -> None:
    assert "--no-auth" in refused("fr-en", "--host", "0.0.0.0")
    assert "there is no such run folder" in refused(str(tmp_path / "nothing"))
    assert "no size" in refused("fr-en", "--memory", "much")
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = str(used.getsockname()[1])
        assert "Address already in use" in refused("fr-en", "--port", port)


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2 * 10**9), ("1.5 GiB", 3 * 2**29), ("500mb", 5 * 10**8), ("4MiB", 2**22), ("7", 7)],
)
def test_sizes(text, size) -> None:
    assert parse_size("--memory", text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "1PB", "1e9", "nan"])
def test_other_sizes_are_refused(text) -> None:
    with pytest.raises(ConfigError, match="is no size"):
        parse_size("--memory", text)


def test_probes_and_metrics_answer(server: Server) -> None:
    assert server.client.get("/healthz").json() == {"status": "ok"}
    assert server.client.get("/readyz").json() == {"status": "ready"}
    assert "regard_requests" in server.client.get("/metrics").text
    assert "/healthz" in server.client.get("/openapi.json").json()["paths"]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that tests may harm, in their order."""
    with serving(tmp_path_factory.mktemp("mortal") / "log", "fr-en") as server:
        yield server


def test_the_server_is_ready_after_less_than_two_seconds_of_computing(mortal) -> None:
    """Processor time is the time to start on one free core, and does not depend on other tests."""
    pids = [mortal.process.pid, *mortal.workers().values()]
    assert len(pids) == 2
    assert sum(map(processor_seconds, pids)) < 2
    libraries = [Path(f"/proc/{pid}/maps").read_text() for pid in pids]
    assert "torch" not in "".join(libraries)
    assert "numpy" not in libraries[0]


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_client_that_hangs_up_frees_its_place(server) -> None:
    body = json.dumps({"q": LONG, "source": "fr", "target": "en"}).encode()
    head = f"POST {TRANSLATE} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
    with socket.create_connection(address) as client:
        client.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        wait_until(lambda: num_requests(server) == 1)
    start = time.monotonic()
    wait_until(lambda: num_requests(server) == 0)
    assert time.monotonic() - start < 2


def num_requests(server: Server) -> float:
    """Return the number of requests that have places in the queue of fr-en."""
    lines = server.client.get("/metrics").text.splitlines()
    names = ("regard_active_requests{", "regard_waiting_requests{")
    own = (line for line in lines if line.startswith(names) and 'model="fr-en"' in line)
    return sum(float(line.split()[1]) for line in own)


def test_sigterm_ends_it_after_the_accepted_requests(tmp_path: Path) -> None:
    with serving(tmp_path / "log", "fr-en") as server:
        answers: list[httpx.Response] = []
        body = {"q": LONG, "source": "fr", "target": "en"}

        def ask() -> None:
            answers.append(httpx.post(f"{server.url}{TRANSLATE}", json=body, timeout=60))

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: num_requests(server) == 1)
        server.process.terminate()
        wait_until(lambda: server.client.get("/readyz").status_code == 503)
        refusal = server.client.post(TRANSLATE, json=body)
        assert refusal.status_code == 503
        assert refusal.headers["retry-after"]
        asking.join()
        assert answers[0].status_code == 200
        assert server.process.wait(10) == 0


def test_a_worker_that_crashes_is_started_again(mortal) -> None:
    (pid,) = mortal.workers().values()
    os.kill(pid, signal.SIGSEGV)
    body = {"q": "Le chat dort.", "source": "fr", "target": "en"}
    answers = [mortal.client.post(TRANSLATE, json=body)]
    while answers[-1].status_code == 503 and len(answers) < 1000:
        answers.append(mortal.client.post(TRANSLATE, json=body))
    assert answers[-1].json()["translatedText"] == "The cat is sleeping."
    assert list(mortal.workers().values()) != [pid]


def test_no_worker_survives_a_server_that_is_killed(mortal) -> None:
    workers = mortal.workers().values()
    assert workers
    mortal.process.kill()
    mortal.process.wait()
    for pid in workers:
        wait_until(lambda pid=pid: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
