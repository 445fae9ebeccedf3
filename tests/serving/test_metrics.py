"""Metrics: exact numbers, and labels that are bounded."""

from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from regard.serving.metrics import Metrics
from regard.serving.middleware.observation import Observe
from regard.serving.middleware.request_ids import RequestIds
from regard.serving.request_record import RequestRecord, count_tokens, current_record

from .conftest import wait_until


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return values by name and labels, the latter in the order of their names."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def exposed(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    return samples(metrics.exposition().decode())


def test_requests_are_counted_by_route_model_and_status() -> None:
    metrics = Metrics()
    for status, seconds in ((200, 0.2), (200, 3.0), (429, 0.001)):
        metrics.observe(
            RequestRecord(
                method="POST",
                route="/translate",
                model="fr-en",
                status=status,
                input_tokens=7,
                output_tokens=5,
                started=100,
                ended=100 + seconds,
            )
        )
    values = exposed(metrics)
    assert values["regard_requests_total", ("POST", "fr-en", "/translate", "200")] == 2
    assert values["regard_requests_total", ("POST", "fr-en", "/translate", "429")] == 1
    assert values["regard_tokens_total", ("input", "fr-en")] == 21
    assert values["regard_tokens_total", ("output", "fr-en")] == 15
    assert values["regard_request_seconds_count", ("fr-en", "/translate")] == 3
    assert abs(values["regard_request_seconds_sum", ("fr-en", "/translate")] - 3.201) < 1e-9
    below = {
        labels[0]: value
        for (name, labels), value in values.items()
        if name == "regard_request_seconds_bucket"
    }
    assert (below["0.005"], below["0.25"], below["2.5"], below["5.0"]) == (1, 2, 2, 3)
    assert not any(name.startswith("regard_time_to_first_token") for name, _ in values)


def test_streams_are_timed() -> None:
    record = RequestRecord(model="lm", started=10, ended=12, output_tokens=5)
    record.first_event, record.last_event = 10.5, 11.5
    assert record.seconds_to_first_token == 0.5
    assert record.seconds_per_output_token == 0.25
    metrics = Metrics()
    metrics.observe(record)
    values = exposed(metrics)
    assert values["regard_time_to_first_token_seconds_sum", ("lm",)] == 0.5
    assert values["regard_time_per_output_token_seconds_sum", ("lm",)] == 0.25
    assert RequestRecord().seconds_to_first_token is None
    assert RequestRecord(output_tokens=1).seconds_per_output_token is None


def test_tokens_are_those_of_a_result_and_of_its_items() -> None:
    names = ("input_tokens", "prompt_tokens")
    assert count_tokens({"prompt_tokens": 3, "choices": [{"text": "a"}]}, names) == 3
    assert count_tokens({"translations": [{"input_tokens": 2}, {"input_tokens": 5}]}, names) == 7
    assert count_tokens({"vectors": [[0.5]], "input_tokens": 2}, names) == 2
    assert count_tokens({"input_tokens": None}, names) == 0


def test_paths_that_do_not_exist_add_no_labels() -> None:
    metrics = Metrics()

    async def answer(_: object) -> JSONResponse:
        current_record().model = "one"
        return JSONResponse(1)

    app = Starlette(
        routes=[
            Route("/v1/models/{name}", answer),
            Mount("/assets", routes=[Route("/{name}", answer)]),
        ]
    )
    client = TestClient(RequestIds(Observe(app, metrics)))
    for number in range(50):
        assert client.get(f"/v1/models/{number}").status_code == 200
        assert client.get(f"/assets/{number}").status_code == 200
        assert client.get(f"/none/{number}").status_code == 404
        assert client.post(f"/v1/models/{number}").status_code == 405
    counts = {
        labels: value
        for (name, labels), value in exposed(metrics).items()
        if name == "regard_requests_total"
    }
    assert counts["GET", "one", "/v1/models/{name}", "200"] == 50
    assert counts["GET", "", "unmatched", "404"] == 50
    assert counts["POST", "", "/v1/models/{name}", "405"] == 50
    assert len(counts) == 4


def test_workers_are_asked_for_every_scrape() -> None:
    metrics, numbers = (
        Metrics(),
        {"fr-en": {"active": 3, "waiting": 1, "memory": 10, "restarts": 0}},
    )
    metrics.watch_workers(lambda: numbers)
    values = exposed(metrics)
    assert values["regard_active_requests", ("fr-en",)] == 3
    assert values["regard_waiting_requests", ("fr-en",)] == 1
    assert values["regard_worker_memory_bytes", ("fr-en",)] == 10
    assert values["regard_worker_restarts_total", ("fr-en",)] == 0
    numbers["fr-en"] = {"active": 4, "restarts": 2}
    values = exposed(metrics)
    assert values["regard_active_requests", ("fr-en",)] == 4
    assert values["regard_worker_restarts_total", ("fr-en",)] == 2
    assert ("regard_waiting_requests", ("fr-en",)) not in values


def test_a_real_server_counts_what_it_answers(server) -> None:
    def metric(name: str, *labels: str) -> float:
        return samples(server.client.get("/metrics").text).get((name, labels), 0)

    names = (
        "regard_time_to_first_token_seconds_count",
        "regard_time_per_output_token_seconds_count",
    )
    before = [metric(name, "lm") for name in names]
    tokens = metric("regard_tokens_total", "output", "lm")
    body = {"model": "lm", "prompt": "The animal", "max_tokens": 9, "stream": True}
    answer = server.client.post("/v1/completions", json={**body, "temperature": 0})
    assert answer.text.endswith("data: [DONE]\n\n")
    assert [metric(name, "lm") for name in names] == [count + 1 for count in before]
    assert metric("regard_tokens_total", "output", "lm") == tokens + 9
    route = ("POST", "lm", "/v1/completions", "200")
    assert metric("regard_requests_total", *route) >= 1
    assert metric("regard_worker_restarts_total", "lm") == 0
    wait_until(lambda: metric("regard_worker_memory_bytes", "lm") > 2**20)
    wait_until(lambda: metric("regard_decoding_steps_total", "lm") >= 8)
    assert metric("regard_active_requests", "lm") == 0
