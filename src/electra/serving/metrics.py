"""Request counts and latencies, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upper bounds of the histograms' buckets.
SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "electra_requests", "Number of responses", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "electra_request_seconds",
            "Seconds to the response",
            ["path"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.texts = Counter("electra_texts", "Number of texts processed", ["path"], registry=registry)
        self.batches = Histogram(
            "electra_batch_texts", "Texts per batch", buckets=TEXTS_BUCKETS, registry=registry
        )
        self.waiting = Gauge(
            "electra_requests_waiting", "Requests waiting or being computed", registry=registry
        )

    def watch(self, queue_length: Callable[[], int]) -> None:
        """Calls `queue_length` for the gauge of waiting requests each time the metrics are read."""
        self.waiting.set_function(queue_length)

    def render(self) -> bytes:
        """Returns all metrics in Prometheus's text format, in UTF-8."""
        return generate_latest(self.registry)
