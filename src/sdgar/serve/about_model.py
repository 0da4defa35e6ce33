"""What the page and ``GET /model`` say of a model: its data, its metrics, how it learned."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.recommender import Recommender

_MOST_LOG = 4 << 20
"""The most bytes of a log of training that are read."""


def curve_of(folder: Path) -> list[dict[str, Any]]:
    """Return the validation metric and the loss of each epoch, from the log beside a model."""
    path = folder / "log.jsonl"
    if not path.is_file() or path.stat().st_size > _MOST_LOG:
        return []
    found = []
    for text in path.read_text(errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if isinstance(line, dict) and isinstance(line.get("epoch"), int):
            names = ("phase", "epoch", "loss", "metric", "seconds")
            found.append({name: line.get(name) for name in names})
    return found


def gini(count_I: NDArray[np.floating[Any]]) -> float:
    """G = Σ_i (2 i - n - 1) x_i / (n Σ x), x ascending: 0 if all are alike, near 1 if one has all.

    >>> round(gini(np.array([0.0, 0.0, 0.0, 1.0])), 2)
    0.75
    """
    x_I, n = np.sort(count_I.astype(np.float64)), len(count_I)
    if not n or not x_I.sum():
        return 0.0
    return float(((2 * np.arange(1, n + 1) - n - 1) * x_I).sum() / (n * x_I.sum()))


def concentration(model: Recommender, lists: list[NDArray[np.int64]]) -> dict[str, Any]:
    """Return how unequal items are in the data and in the lists of some users."""
    count_I = model.popularity_I
    listed = np.concatenate(lists) if lists else np.zeros(0, np.int64)
    listed_I = np.bincount(listed, minlength=len(count_I))
    most = np.sort(count_I)[::-1]
    top = max(1, len(count_I) // 100)
    total = float(count_I.sum())
    return {
        "gini_of_data": gini(count_I),
        "share_of_top_percent": float(most[:top].sum()) / total if total else 0.0,
        "gini_of_lists": gini(listed_I.astype(np.float64)) if len(listed) else None,
        "users_looked_at": len(lists),
        "items_listed": int((listed_I > 0).sum()),
        "coverage": float((listed_I > 0).mean()) if len(count_I) else 0.0,
    }


def as_time(seconds: float) -> str:
    """Return a time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
