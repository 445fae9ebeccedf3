"""A share of the campaign of hostile requests: a real server answers or closes, and goes on."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .conftest import serving

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CASES, SEED = 250, 1


def test_hostile_requests_fail_nothing(
    tmp_path: Path, runs: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import hostile_requests
    from hostile_input.requests import make

    served = [runs[name] for name in hostile_requests.MODELS]
    monkeypatch.setattr(hostile_requests, "PATIENCE", 0.2)
    with serving(tmp_path / "log", "fr-en", *served, "--max-seconds", 3) as server:
        port = int(server.url.rpartition(":")[2])
        made = (make(number, SEED, hostile_requests.OPERATIONS) for number in range(CASES))
        requests = [request for request in made if request.ending != "wait"]  # 10 or 20 s
        with ThreadPoolExecutor(hostile_requests.CLIENTS) as clients:
            outcomes = clients.map(lambda request: hostile_requests.send(port, request), requests)
            defects = [
                f"{request.number} {request.route} {request.damage}: {outcome}"
                for request, outcome in zip(requests, outcomes, strict=True)
                if outcome.kind == "defect"
            ]
        assert defects == []
        body = {"q": "Le chat dort.", "source": "fr", "target": "en"}
        assert server.client.post("/translate", json=body).status_code == 200
        assert len(server.workers()) == 1 + len(served)
        log = server.log.read_text()
        assert "Traceback" not in log, log
