"""Routes for people who operate the server: probes of its state, and its metrics."""

from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from regard.serving.errors import ServingError, Unavailable
from regard.serving.metrics import Metrics
from regard.serving.models import Models
from regard.serving.settings import ServerSettings

PREFIXES = ("/healthz", "/readyz", "/metrics")


class Health(BaseModel):
    """State of the server."""

    status: str


def router(models: Models, _settings: ServerSettings) -> APIRouter:
    """Return the routes of probes."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz")
    async def is_alive() -> Health:
        """Answer as long as the server lives."""
        return Health(status="ok")

    @routes.get("/readyz", responses={503: {"model": Health}})
    async def is_ready() -> Health:
        """Answer with 200 when the first model is loaded and requests are accepted."""
        if not models.is_ready:
            raise Unavailable("the first model is not loaded.", retry_after=1.0)
        return Health(status="ready")

    return routes


def metrics_router(metrics: Metrics) -> APIRouter:
    """Return the route of the metrics, which belong to one server."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/metrics", response_class=Response)
    async def read_metrics() -> Response:
        """Return all metrics as the text that Prometheus reads."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return routes


def error_body(error: ServingError) -> dict[str, Any]:
    """Return the body of an answer to an error."""
    return {"status": error.message}
