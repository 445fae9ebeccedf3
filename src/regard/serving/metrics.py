"""Prometheus metrics of a server: its requests, and what its workers report.

Values of labels are bounded: routes are templates, models are served names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regard.serving.request_record import RequestRecord

# Seconds. Small translators answer in milliseconds, long texts take minutes.
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
FIRST_TOKEN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
TOKEN_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)

WorkerNumbers = Mapping[str, Mapping[str, Any]]  # by model


class Metrics:
    """Metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "regard_requests",
            "Requests answered; status 0 is of clients that were gone before.",
            ["method", "route", "model", "status"],
            registry=self.registry,
        )
        self._in_progress = Gauge(
            "regard_requests_in_progress", "Requests that are answered.", registry=self.registry
        )
        self._seconds = self._histogram(
            "regard_request_seconds",
            "Time from the head of a request to the end of its answer.",
            REQUEST_BUCKETS,
            ["route", "model"],
        )
        self._first_token = self._histogram(
            "regard_time_to_first_token_seconds",
            "Time until the first piece of a streamed answer.",
            FIRST_TOKEN_BUCKETS,
        )
        self._output_token = self._histogram(
            "regard_time_per_output_token_seconds",
            "Mean time between the tokens of a streamed answer.",
            TOKEN_BUCKETS,
        )
        self._tokens = Counter(
            "regard_tokens",
            "Tokens of texts that were read (input) and written (output).",
            ["model", "direction"],
            registry=self.registry,
        )

    def _histogram(
        self,
        name: str,
        description: str,
        buckets: Sequence[float],
        labels: Sequence[str] = ("model",),
    ) -> Histogram:
        return Histogram(name, description, labels, buckets=buckets, registry=self.registry)

    def in_progress(self) -> AbstractContextManager[None]:
        """Return a context in which a request is counted as one that is answered."""
        return self._in_progress.track_inprogress()

    def observe(self, record: RequestRecord) -> None:
        """Add a request that has ended."""
        model = record.model
        self._requests.labels(record.method, record.route, model, str(record.status)).inc()
        self._seconds.labels(record.route, model).observe(record.seconds)
        for histogram, seconds in (
            (self._first_token, record.seconds_to_first_token),
            (self._output_token, record.seconds_per_output_token),
        ):
            if seconds is not None:
                histogram.labels(model).observe(seconds)
        if model:
            self._tokens.labels(model, "input").inc(record.input_tokens)
            self._tokens.labels(model, "output").inc(record.output_tokens)

    def watch_workers(self, numbers: Callable[[], WorkerNumbers]) -> None:
        """Add what workers report: `numbers` returns it, and is called for every scrape."""
        self.registry.register(_WorkerCollector(numbers))

    def exposition(self) -> bytes:
        """Return all metrics as the text that Prometheus reads."""
        return generate_latest(self.registry)


# Numbers of a worker's statistics: their metrics and descriptions.
GAUGES = {
    "active": ("regard_active_requests", "Requests that a model computes."),
    "waiting": ("regard_waiting_requests", "Requests that wait for a model: its queue."),
    "memory": ("regard_worker_memory_bytes", "Resident memory of the worker of a model."),
}
COUNTERS = {
    "restarts": ("regard_worker_restarts", "Starts of a model's worker after the first one."),
    "steps": ("regard_decoding_steps", "Steps that a model computed."),
    "rows": ("regard_decoded_rows", "Rows of all steps: divided by the steps, the batch size."),
    "prefix_hits": ("regard_prefix_cache_hits", "Chunks of prompts that were computed before."),
    "prefix_misses": ("regard_prefix_cache_misses", "Chunks of prompts that were computed."),
}


class _WorkerCollector(Collector):
    def __init__(self, numbers: Callable[[], WorkerNumbers]) -> None:
        self._numbers = numbers

    def collect(self) -> Iterable[Metric]:
        workers = self._numbers()
        for families, metrics in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for key, (name, description) in metrics.items():
                family = families(name, description, labels=["model"])
                for model, numbers in workers.items():
                    if key in numbers:
                        family.add_metric([model], numbers[key])
                yield family
