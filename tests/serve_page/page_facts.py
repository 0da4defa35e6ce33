"""What the stand-in of the server says of its model and of itself."""

from __future__ import annotations

from typing import Any

CURVE = [
    {"epoch": n, "metric": round(0.21 * (1 - 0.82**n) - 0.0006 * max(0, n - 18), 5)}
    for n in range(1, 31)
]
MODEL: dict[str, Any] = {
    "version": "2026-11-17-4f2a",
    "system": "sdgar",
    "settings": {"dim": 128, "states": 32, "learning_rate": 0.005, "seed": 7, "memory": True},
    "data": {"users": 29858, "items": 40981, "interactions": 1027370, "density": 0.00084},
    "metrics": {"ndcg@10": 0.1412, "ndcg@50": 0.2031, "recall@50": 0.2874},
    "popular_metrics": {"ndcg@10": 0.0308, "ndcg@50": 0.0465, "recall@50": 0.0731},
    "curve": CURVE,
    "generator": {
        "x_perplexity": 11.4, "states": 32.0, "y_perplexity": 5210.0, "items": 40981.0, "kl": 1.37,
    },
    "index": {"kind": "exact", "recall": 1.0},
    "concentration": {"gini": 0.71, "coverage": 0.46, "lists": 2000},
    "loaded_at": 1_794_900_000.0,
    "trained_at": 1_794_880_000.0,
    "variants": [{"name": "main", "share": 0.9}, {"name": "popular", "share": 0.1}],
}  # fmt: skip
ABILITIES = {"users": True, "histories": True, "similar": True, "reasons": True, "contexts": False}
SERVICE: dict[str, Any] = {
    "uptime": 93_784.0,
    "requests": {"total": 182_044, "per_minute": [40 + (n * 37) % 61 + n for n in range(60)]},
    "latency_ms": {"p50": 4.21, "p99": 18.7},
    "feedback_per_hour": [(n * 53) % 41 for n in range(24)],
    "batch": {"mean": 3.4},
    "errors": 2,
    "queue": 0,
}
