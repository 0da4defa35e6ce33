"""Metrics of the service, for Prometheus and for the page."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_LAST = 10_000
"""The number of newest requests in the page's latencies."""


class ServiceMetrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self.started = time.time()
        self.registry = CollectorRegistry()

        def add(kind: Any, name: str, text: str, *labels: str, **options: Any) -> Any:
            return kind(f"sdgar_{name}", text, labels, registry=self.registry, **options)

        self.requests = add(Counter, "requests", "Requests.", "route", "status")
        self.seconds = add(
            Histogram, "request_seconds", "Seconds of a request.", "route", buckets=_BUCKETS
        )
        self.batch = add(
            Histogram, "batch_questions", "Queries that were answered together.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
        )  # fmt: skip
        self.events = add(Counter, "feedback_events", "Events that were stored.")
        self.swaps = add(Gauge, "model_swaps", "Models that replaced another one.")
        self.age = add(Gauge, "model_age_seconds", "Seconds since the model was loaded.")
        self.refused = add(Gauge, "models_refused", "Models that wait and were refused.")
        self.waiting = add(Gauge, "questions_waiting", "Queries in the queue.")
        self.running = add(Gauge, "requests_running", "Requests in progress.")
        self.kept = add(Gauge, "entries_kept", "Entries that were found in RAM.")
        self.read = add(Gauge, "entries_read", "Entries that were read from the store.")
        self.dropped = add(Gauge, "impressions_dropped", "Impressions that were not logged.")
        self._last: deque[tuple[float, float, int]] = deque(maxlen=_LAST)
        self._total = self._errors = 0
        self._batches = self._queries = 0

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        self._total += 1
        self._errors += status >= 500
        self._last.append((time.time(), seconds, status))

    def batch_of(self, queries: int) -> None:
        """Count a batch of queries that are answered together."""
        self.batch.observe(queries)
        self._batches += 1
        self._queries += queries

    def for_page(self) -> dict[str, Any]:
        """Return the numbers of the page: requests per minute of the last hour, and latencies."""
        now = time.time()
        per_minute = [0] * 60
        for when, _, _ in self._last:
            minute = int((now - when) // 60)
            if 0 <= minute < 60:
                per_minute[59 - minute] += 1
        seconds = sorted(one for when, one, _ in self._last if now - when < 3600)

        def quantile(share: float) -> float | None:
            at = min(len(seconds) - 1, int(share * len(seconds)))
            return round(1000 * seconds[at], 3) if seconds else None

        return {
            "uptime": now - self.started,
            "requests": {"total": self._total, "per_minute": per_minute},
            "latency_ms": {"p50": quantile(0.5), "p99": quantile(0.99)},
            "errors": self._errors,
            "batch": {"mean": self._queries / self._batches if self._batches else None},
        }
