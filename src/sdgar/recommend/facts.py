"""What a saved model says of itself, as plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdgar.recommend.recommender import Recommender


def facts_of(run: Path, model: Recommender) -> dict[str, Any]:
    """Return what a model says of itself that was loaded from this folder."""
    about = model.about
    report = table(about.get("report"))
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
            "rows": table(about.get("data")).get("rows"),
            "fingerprint": table(about.get("data")).get("fingerprint"),
        },
        "created_by": about.get("created_by"),
        "written": _written(run / "manifest.json"),
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
        "can": model.abilities,
    }


def _written(file: Path) -> str:
    when = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return when.isoformat(sep=" ", timespec="seconds")


def table(value: Any) -> dict[str, Any]:
    """Return a table as it is; an older or a foreign model may have none, which is an empty one."""
    return value if isinstance(value, dict) else {}
