"""What a saved model reports about itself: a summary for people, and facts as plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdgar.recommend.indexed_model import IndexedModel


def table(value: Any) -> dict[str, Any]:
    """Return a table of what is saved about a model; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def summary(model: IndexedModel) -> list[str]:
    """Return how a model was made, in at most four lines."""
    about, fields = model.about, model.fields
    report = table(about.get("report"))
    found = {
        "dim": table(about.get("hyper_parameters")).get("dim"),
        "best epoch": about.get("best_epoch"),
        "seed": about.get("seed"),
        "seconds": table(report.get("seconds")).get("total"),
        "engine": table(about.get("engine")).get("name") or about.get("computed_by"),
    }
    facts = " · ".join(f"{name} {value}" for name, value in found.items() if value is not None)
    measured = _accuracy(table(report.get("test")), "on test rows")
    popular = _accuracy(table(report.get("most_popular")), "for most popular") if measured else ""
    valid = _accuracy(table(about.get("valid")), "on validation rows")
    contexts = "users" if fields is None else "contexts"
    lines = [
        f"{len(model.users):,} {contexts} × {len(model.items):,} items, "
        f"{len(model.history.items_E):,} known rows",
        facts,
        ", ".join(filter(None, (measured, popular, valid))),
        "" if fields is None else f"a context is {', '.join(fields.names)}",
    ]
    return [line for line in lines if line]


def _accuracy(metrics: dict[str, Any], rows: str) -> str:
    value = metrics.get("ndcg@50")
    return f"NDCG@50 {value:.4f} {rows}" if isinstance(value, float) else ""


def facts_of(run: Path, model: IndexedModel, abilities: dict[str, bool]) -> dict[str, Any]:
    """Return the facts of a model that was loaded from this folder."""
    about = model.about
    report, data = table(about.get("report")), table(about.get("data"))
    written = datetime.fromtimestamp((run / "manifest.json").stat().st_mtime, UTC)
    return {
        "run": str(run),
        "finished": True,
        "system": about.get("system"),
        "settings": table(about.get("hyper_parameters")) | table(about.get("decided")),
        "data": {
            "users": len(model.users),
            "items": len(model.items),
            "interactions": len(model.history.items_E),
            "context": about.get("context", ["user"]),
            "rows": data.get("rows"),
            "fingerprint": data.get("fingerprint"),
        },
        "created_by": about.get("created_by"),
        "written": written.isoformat(sep=" ", timespec="seconds"),
        "engine": report.get("engine"),
        "best_epoch": report.get("best_epoch"),
        "further": table(about.get("further")),
        "seconds": table(report.get("seconds")).get("total"),
        "protocol": report.get("protocol"),
        "test": table(report.get("test")),
        "most_popular": table(report.get("most_popular")),
        "definition": report.get("definition"),
        "generator": table(report.get("generator")),
        "version": model.version,
        "bytes": sum(file.stat().st_size for file in run.iterdir() if file.is_file()),
        "can": abilities,
    }
