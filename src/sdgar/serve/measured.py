"""Numbers of the service itself, for Prometheus and for the page."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_LAST = 10_000
"""How many of the newest requests the page's latencies are made from."""


class Measured:
    """Counters of one process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.started = clock()
        self.registry = CollectorRegistry()

        def named(kind: Any, name: str, text: str, *labels: str, **options: Any) -> Any:
            return kind(f"sdgar_{name}", text, labels, registry=self.registry, **options)

        self.requests = named(Counter, "requests", "Requests.", "route", "status")
        self.seconds = named(
            Histogram, "request_seconds", "Seconds of a request.", "route", buckets=_BUCKETS
        )
        self.batch = named(
            Histogram, "batch_questions", "Questions that were answered together.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
        )  # fmt: skip
        self.events = named(Counter, "feedback_events", "Events that were stored.")
        self.swaps = named(Gauge, "model_swaps", "How often a model took another's place.")
        self.age = named(Gauge, "model_age_seconds", "Seconds since the model was loaded.")
        self.refused = named(Gauge, "models_refused", "Models that wait and were refused.")
        self.waiting = named(Gauge, "questions_waiting", "Questions that wait for their turn.")
        self.running = named(Gauge, "requests_running", "Requests that are being answered.")
        self.kept = named(
            Gauge, "entries_kept", "Entries that were found in the memory of this process."
        )
        self.read = named(Gauge, "entries_read", "Entries that were read from the store.")
        self.dropped = named(Gauge, "impressions_dropped", "Impressions that were not logged.")
        self._last: deque[tuple[float, float, int]] = deque(maxlen=_LAST)
        self._total = self._errors = 0
        self._batches = self._batched = 0

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        self._total += 1
        self._errors += status >= 500
        self._last.append((self._clock(), seconds, status))

    def batched(self, questions: int) -> None:
        """Count questions that are answered together."""
        self.batch.observe(questions)
        self._batches += 1
        self._batched += questions

    def text(self) -> bytes:
        """Return all numbers as Prometheus reads them."""
        return generate_latest(self.registry)

    def for_page(self) -> dict[str, Any]:
        """Return what the page shows: the last hour by minutes, and latencies."""
        now = self._clock()
        per_minute = [0] * 60
        for when, _, _ in self._last:
            minute = int((now - when) // 60)
            if 0 <= minute < 60:
                per_minute[59 - minute] += 1
        seconds = sorted(one for when, one, _ in self._last if now - when < 3600)

        def at(share: float) -> float | None:
            place = min(len(seconds) - 1, int(share * len(seconds)))
            return round(1000 * seconds[place], 3) if seconds else None

        mean = self._batched / self._batches if self._batches else None
        return {
            "uptime": now - self.started,
            "requests": {"total": self._total, "per_minute": per_minute},
            "latency_ms": {"p50": at(0.5), "p99": at(0.99)},
            "errors": self._errors,
            "batch": {"mean": mean},
        }
