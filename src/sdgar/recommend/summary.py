"""What is known of a model, in a few lines for people."""

from __future__ import annotations

from typing import Any


def summary(
    about: dict[str, Any], sizes: tuple[int, int, int], fields: tuple[str, ...] | None
) -> list[str]:
    """Tell how a model was made, in at most four lines.

    ``sizes`` are its numbers of users, items and known rows; ``fields`` those of its contexts.
    """
    settings = _said_under(about.get("hyper_parameters"))
    users, items, rows = sizes
    report = _said_under(about.get("report"))
    whom = "users" if fields is None else "contexts"
    found = {
        "dim": settings.get("dim"),
        "best epoch": about.get("best_epoch"),
        "seed": about.get("seed"),
        "seconds": _said_under(report.get("seconds")).get("total"),
        "engine": _said_under(about.get("engine")).get("name") or about.get("computed_by"),
    }
    facts = " · ".join(f"{name} {value}" for name, value in found.items() if value is not None)
    measured = _beside(_said_under(report.get("test")), "on test rows")
    beside = _beside(_said_under(report.get("most_popular")), "for most popular")
    valid = _beside(_said_under(about.get("valid")), "on validation rows")
    said = ", ".join(filter(None, (measured, beside if measured else "", valid)))
    lines = [f"{users:,} {whom} × {items:,} items, {rows:,} known rows", facts, said]
    if fields is not None:
        lines.append(f"a context is {', '.join(fields)}")
    return [line for line in lines if line]


def _said_under(value: Any) -> dict[str, Any]:
    """Return what a saved model says under a name, if it is a table."""
    return value if isinstance(value, dict) else {}


def _beside(metrics: dict[str, Any], what: str) -> str:
    value = metrics.get("ndcg@50")
    return f"NDCG@50 {value:.4f} {what}" if isinstance(value, float) else ""
