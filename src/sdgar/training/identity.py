"""The identity of a run: what must be the same for it to resume after an interruption."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdgar.errors import ArtifactError

Identity = Mapping[str, Any]
"""The entries that must be the same for a run to resume: data, system, settings, version."""


def require_same(recorded: Identity, now: Identity, where: Path) -> None:
    """Raise if data, settings or code differ from those at the start of a run; name each."""
    differ = [
        f"{name} was {recorded.get(name)!r}, is now {now.get(name)!r}"
        for name in sorted({*recorded, *now})
        if recorded.get(name) != now.get(name)
    ]
    if differ:
        raise ArtifactError(
            f"{where} is of a run that started differently: {'; '.join(differ)}. Restore what it "
            "started with to resume, or start over with --overwrite.",
            code="mismatch",
        )


def as_json(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table as it will be read back, so that a tuple equals the list it becomes."""
    return dict(json.loads(json.dumps(table)))
