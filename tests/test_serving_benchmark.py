"""The servers of the benchmark of serving give the same answers, and its client counts them."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from regard.engine.library import library

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
LOAD = "../servers/load.py"

pytest.importorskip("httptools")
pytest.importorskip("uvloop")


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


class Handler(BaseHTTPRequestHandler):
    """Answers every third request, refuses the next, and refuses the last without Retry-After."""

    protocol_version = "HTTP/1.1"
    numbers = count()

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["q"]
        number = next(self.numbers) % 3
        body = json.dumps({"translatedText": text.upper()}).encode()
        self.send_response(429 if number else 200)
        if number == 1:
            self.send_header("Retry-After", "2")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("load", [{"clients": 4}, {"rate": 200.0}])
def test_client_counts_answers(load: dict[str, float], port: int, tmp_path: Path) -> None:
    from engine_process import run_engine

    bodies = [json.dumps({"q": text}) for text in ("a", "b", "c", "d")]
    work = {"port": port, "path": "/", "bodies": bodies, "warm_up": 0.1, "seconds": 0.5, **load}
    result = run_engine(LOAD, work, tmp_path)
    good, refused = (result["statuses"][status] for status in ("200", "429"))
    assert good + refused == result["answers"] > 30
    assert result["unanswered"] == 0
    assert abs(good - refused / 2) <= 2
    assert abs(result["without_retry_after"] - refused / 2) <= 2
    texts = {index: set(text["answers"]) for index, text in result["texts"].items()}
    assert all(texts[index] == {"abcd"[int(index)].upper()} for index in texts)
    assert 0 < result["latency"]["50"] <= result["latency"]["99"] < 1
    assert not result["first_token"]


@pytest.mark.skipif(library() is None, reason="the engine was not built")
@pytest.mark.parametrize("workload", ["streamed completion", "completion of any length"])
def test_servers_give_the_same_answers(workload: str, tmp_path: Path) -> None:
    for module in ("ctranslate2", "fastapi", "gguf", "transformers", "uvicorn", "xllamacpp"):
        pytest.importorskip(module)
    import llama_cpp
    from engine_process import run_engine
    from server_process import running_server
    from serving_setup import WORKLOADS, Models

    (requests,) = (own for own in WORKLOADS if own.name == workload)
    models = Models(tmp_path, llama_cpp.SMOKE)
    answers = {}
    for server in ("Regard", "CTranslate2", "llama.cpp F32", "Hugging Face"):
        work = {
            "path": requests.path,
            "bodies": requests.bodies(server, models.texts(requests)[:6]),
            "clients": 3,
            "warm_up": 0,
            "seconds": 0,
            "min_answers": 12,
        }
        with running_server(models.command(requests, server, 1, 1)) as process:
            result = run_engine(LOAD, {**work, "port": process.port}, tmp_path)
            assert process.memory > 0
            assert process.cpu_seconds > 0
        assert bool(result["first_token"]) == requests.streams
        answers[server] = {
            index: [_summary(text) for text in answer["answers"]]
            for index, answer in result["texts"].items()
        }
    assert len(answers["Regard"]) == 6
    assert all(own == answers["Regard"] for own in answers.values())


def _summary(text: str) -> tuple[int, list[str]]:
    """Return the number of tokens, and the first ones: rounding may decide about later ones."""
    tokens = text.split()
    return len(tokens), tokens[:10]
