"""Counts and times of a server, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept = self.registry
        self.requests = Counter("electra_requests", "Requests answered", ["path", "status"], registry=kept)
        self.seconds = Histogram(
            "electra_request_seconds", "Until the answer", ["path"], buckets=SECONDS, registry=kept
        )
        self.texts = Counter("electra_texts", "Texts answered", ["path"], registry=kept)
        self.batches = Histogram(
            "electra_batch_texts", "Texts computed together", buckets=TEXTS, registry=kept
        )
        self.waiting = Gauge("electra_requests_waiting", "Requests that wait or are computed", registry=kept)

    def watch(self, waiting: Callable[[], int]) -> None:
        """Ask `waiting` for the length of the queue whenever someone looks."""
        self.waiting.set_function(waiting)

    def show(self) -> bytes:
        return generate_latest(self.registry)
