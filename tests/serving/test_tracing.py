"""Traces: a span for each request and one for each of its tasks, where a provider is configured."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from regard.serving import tracing
from regard.serving.metrics import Metrics
from regard.serving.middleware.observation import Observe
from regard.serving.middleware.request_ids import RequestIds
from regard.serving.request_record import current_record

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def translate(_: object) -> JSONResponse:
    record = current_record()
    record.model, record.input_tokens, record.output_tokens = "fr-en", 7, 8
    with tracing.task_span("fr-en", "translate"):
        return JSONResponse(1)


@pytest.fixture
def client() -> TestClient:
    app = Starlette(routes=[Route("/translate/{name}", translate, methods=["POST"])])
    return TestClient(RequestIds(Observe(app, Metrics())))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Configure a provider that keeps spans."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(tracing.trace, "get_tracer_provider", lambda: provider)
    yield kept
    provider.shutdown()


def test_a_request_is_a_span_and_its_task_a_child(client: TestClient, exporter) -> None:
    headers = {"traceparent": PARENT, "x-request-id": "abc"}
    assert client.post("/translate/secret?q=secret", headers=headers).status_code == 200
    task, request = exporter.get_finished_spans()
    assert request.name == "POST /translate/{name}"
    assert request.kind.name == "SERVER"
    assert dict(request.attributes) == {
        "http.request.method": "POST",
        "http.route": "/translate/{name}",
        "http.response.status_code": 200,
        "regard.request_id": "abc",
        "regard.model": "fr-en",
        "regard.input_tokens": 7,
        "regard.output_tokens": 8,
    }
    assert f"{request.context.trace_id:x}" == PARENT.split("-")[1].lstrip("0")
    assert f"{request.parent.span_id:x}" == PARENT.split("-")[2]
    assert task.parent.span_id == request.context.span_id
    assert task.name == "translate fr-en"
    assert "secret" not in request.to_json() + task.to_json()


def test_without_a_provider_nothing_is_traced(client: TestClient) -> None:
    assert not tracing.is_configured()
    assert client.post("/translate/x", headers={"traceparent": PARENT}).status_code == 200


def test_without_the_package_nothing_is_traced(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "trace", None)
    assert client.post("/translate/x").status_code == 200
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    tracing.configure_from_environment()
