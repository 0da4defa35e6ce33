"""What an experiment leaves: rows as JSON and CSV, and from those a table and a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.data.tables import to_table, write_table
from sdgar.data.whole_files import replacing
from sdgar.experiments.figures import new_figure
from sdgar.experiments.paper.pieces import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which stay apart for colour-blind readers."""
MARKS = "os^Dv<>"


def write_rows(rows: Sequence[Row], out: Path, name: str) -> None:
    """The rows whole as JSON; as CSV those of their values that fit a cell."""
    _write(out / f"{name}.json", json.dumps(list(rows), indent=1, allow_nan=False) + "\n")
    plain = [{k: v for k, v in row.items() if not isinstance(v, dict | list)} for row in rows]
    columns = list(dict.fromkeys(key for row in plain for key in row))
    write_table(to_table({c: [row.get(c) for row in plain] for c in columns}), out / f"{name}.csv")


def write_markdown(out: Path, name: str, parts: Sequence[str]) -> None:
    """Paragraphs and tables."""
    _write(out / f"{name}.md", "\n\n".join(parts) + "\n")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Cells as they are."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write_figure(figure: Figure, out: Path, name: str) -> None:
    """As PNG."""
    with replacing(out / f"{name}.png") as temporary:
        figure.savefig(temporary, format="png")


def panels(n: int, *, height: float = 3.6) -> tuple[Figure, list[Any]]:
    """A figure with n axes side by side."""
    figure = new_figure(width=max(7.0, 3.8 * n), height=height)
    axes = figure.subplots(1, n, squeeze=False)[0]
    for one in axes:
        one.grid(alpha=0.3)
    return figure, list(axes)


def made_on(rows: Sequence[Row]) -> str:
    """Which machines the rows come from."""
    machines = dict.fromkeys(
        f"{m['device']}, {m['threads']} threads, torch {m['torch']}, sdgar {m['sdgar']}"
        for m in (row["made_on"] for row in rows)
    )
    return "Made on: " + "; ".join(machines) + "."


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text)
