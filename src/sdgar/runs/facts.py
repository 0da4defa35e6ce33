"""How far an unfinished run has come, as plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sdgar.recommend.facts import table
from sdgar.runs.workspace import partial_of, read_run
from sdgar.show.printed import command


def unfinished(out: Path) -> dict[str, Any]:
    """Return how far an unfinished run has come, and the command that goes on with it."""
    told = read_run(out)
    folder = partial_of(out)
    job = table(told["command"])
    log = _log(folder / "log.jsonl")
    kept = sorted(path.name for path in folder.glob("checkpoint-*"))
    last = log[-1] if log else {}
    measured = [line for line in log if isinstance(line.get("metric"), int | float)]
    return {
        "run": str(folder),
        "finished": False,
        "system": table(told["identity"]).get("system"),
        "settings": table(job.get("settings")),
        "files": job.get("files"),
        "created_by": f"sdgar {table(told['identity']).get('sdgar version')}",
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
                lines.append(table(json.loads(text)))
            except ValueError:
                break
    return lines
