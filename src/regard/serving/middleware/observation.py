"""Observation of every request to its end: its log line, its metrics and its span."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving import logs, tracing
from regard.serving.metrics import Metrics
from regard.serving.request_record import UNMATCHED, current_record


class Observe:
    """ASGI middleware that completes the record of a request and reports it."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        record = current_record()

        async def send_observed(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                record.status = message["status"]
            elif not message.get("more_body", False):
                record.is_complete = True

        with self._metrics.in_progress(), tracing.request_span(record, scope):
            try:
                return await self._app(scope, receive, send_observed)
            finally:
                record.ended = time.perf_counter()
                record.route = route_of(scope)
                self._metrics.observe(record)
                logs.log_request(record)


def route_of(scope: Scope) -> str:
    """Return the template of the route that answered: paths themselves are unbounded in number."""
    return getattr(scope.get("route"), "path_format", UNMATCHED)
