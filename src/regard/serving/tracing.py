"""OpenTelemetry traces, where `opentelemetry-api` is installed and a provider is configured.

A request is a span, and each task that a worker computes for it is a child. Spans have the fields
of the log: no text of users, no key. `opentelemetry-instrument regard serve …` configures a
provider; so does OTEL_EXPORTER_OTLP_ENDPOINT where the packages `opentelemetry-sdk` and
`opentelemetry-exporter-otlp-proto-http` are installed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope

from regard import __version__
from regard.serving.request_record import RequestRecord

try:
    from opentelemetry import propagate, trace
except ImportError:
    trace = None  # type: ignore[assignment]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def configure_from_environment() -> None:
    """Send spans to the collector that the environment names, unless a provider is configured."""
    if trace is None or is_configured() or not any(map(os.environ.get, ENDPOINTS)):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return
    provider = TracerProvider(resource=Resource.create({"service.name": "regard"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def is_configured() -> bool:
    """Return whether spans go anywhere."""
    if trace is None:
        return False
    provider = trace.get_tracer_provider()
    return not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


@contextmanager
def request_span(record: RequestRecord, scope: Scope) -> Iterator[None]:
    """Trace a request, as a part of the client's trace if it sent one."""
    if not is_configured():
        yield
        return
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    with _tracer().start_as_current_span(
        record.method,
        propagate.extract(headers),
        trace.SpanKind.SERVER,
        record_exception=False,  # its message may have a text of a user
    ) as span:
        try:
            yield
        finally:
            span.update_name(f"{record.method} {record.route}")
            span.set_attributes(_attributes(record))
            if record.status >= 500:
                span.set_status(trace.StatusCode.ERROR)


@contextmanager
def task_span(model: str, task: str) -> Iterator[None]:
    """Trace a task that a worker computes, from its request to its result."""
    if not is_configured():
        yield
        return
    # Not the current span: results are streamed, and the code around may end in another context.
    names = {"regard.model": model, "regard.task": task}
    span = _tracer().start_span(f"{task} {model}", attributes=names)
    try:
        yield
    finally:
        span.end()


def _tracer() -> Any:
    return trace.get_tracer("regard.serving", __version__)


def _attributes(record: RequestRecord) -> dict[str, Any]:
    return {
        "http.request.method": record.method,
        "http.route": record.route,
        "http.response.status_code": record.status,
        "regard.request_id": record.id,
        "regard.model": record.model,
        "regard.input_tokens": record.input_tokens,
        "regard.output_tokens": record.output_tokens,
    }
