"""What a saved model says of itself, and how far an unfinished run has come, as plain values."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdgar.experiments.workspace import partial_of, read_run
from sdgar.recommend.manifest import read_manifest
from sdgar.recommend.recommender import load
from sdgar.show.printed import command


def saved(run: Path) -> dict[str, Any]:
    """Return what a saved model is, after verifying its files."""
    model = load(run)
    manifest = read_manifest(run)
    about, sizes = model.about, manifest["sizes"]
    report = _table(about.get("report"))
    return {
        "run": str(run),
        "finished": True,
        "system": about.get("system"),
        "settings": _table(about.get("hyper_parameters")) | _table(about.get("decided")),
        "data": {
            **{name: sizes[name] for name in ("users", "items", "interactions")},
            "context": about.get("context", ["user"]),
            "rows": _table(about.get("data")).get("rows"),
            "fingerprint": _table(about.get("data")).get("fingerprint"),
        },
        "created_by": about.get("created_by"),
        "written": _written(run / "manifest.json"),
        "engine": report.get("engine"),
        "best_epoch": report.get("best_epoch"),
        "seconds": _table(report.get("seconds")).get("total"),
        "protocol": report.get("protocol"),
        "test": _table(report.get("test")),
        "most_popular": _table(report.get("most_popular")),
        "definition": report.get("definition"),
        "generator": _table(report.get("generator")),
        "bytes": sum(file.stat().st_size for file in run.iterdir() if file.is_file()),
        "can": model.abilities,
    }


def unfinished(out: Path) -> dict[str, Any]:
    """Return how far an unfinished run has come, and the command that goes on with it."""
    told = read_run(out)
    folder = partial_of(out)
    job = _table(told["command"])
    log = _log(folder / "log.jsonl")
    kept = sorted(path.name for path in folder.glob("checkpoint-*"))
    last = log[-1] if log else {}
    measured = [line for line in log if isinstance(line.get("metric"), int | float)]
    return {
        "run": str(folder),
        "finished": False,
        "system": _table(told["identity"]).get("system"),
        "settings": _table(job.get("settings")),
        "files": job.get("files"),
        "created_by": f"sdgar {_table(told['identity']).get('sdgar version')}",
        "phase": last.get("phase"),
        "epoch": last.get("epoch", 0),
        "loss": last.get("loss"),
        "best": max((line["metric"] for line in measured), default=None),
        "checkpoints": kept,
        "resume": command("sdgar", "train", "--resume", out) if job else None,
    }


def _log(path: Path) -> list[dict[str, Any]]:
    """Read the epochs so far; a line that is being written is not one yet."""
    lines = []
    if path.is_file():
        for text in path.read_text(errors="replace").splitlines():
            try:
                lines.append(_table(json.loads(text)))
            except ValueError:
                break
    return lines


def _written(file: Path) -> str:
    when = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return when.isoformat(sep=" ", timespec="seconds")


def _table(value: Any) -> dict[str, Any]:
    """Return a table as it is; an older or a foreign model may have none, which is an empty one."""
    return value if isinstance(value, dict) else {}
