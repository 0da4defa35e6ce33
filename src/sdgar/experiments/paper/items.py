"""Seconds per epoch against the number of items: SD-GAR and IRGAN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sdgar.data.synthetic import Shape
from sdgar.experiments.paper import sheets
from sdgar.experiments.paper.cost import cost
from sdgar.experiments.paper.pieces import Piece, Row, Setting

NAME = "items"
TITLE = "Seconds per epoch against the number of items"
ITEMS = {
    "sdgar": (20_000, 40_000, 60_000, 80_000, 100_000, 300_000, 1_000_000),
    "irgan": (20_000, 40_000, 60_000, 80_000, 100_000),
}
USERS, INTERACTIONS = 50_000, 2_000_000
QUICK_SHARE = 50
PARTS = ("discriminator", "generator")


def pieces(setting: Setting) -> list[Piece]:
    """2 million positives of 50,000 users; quick: a fiftieth of each and of the items."""
    by = QUICK_SHARE if setting.quick else 1
    return [
        cost(
            system,
            Shape(
                users=USERS // by,
                items=n_items // by,
                interactions=INTERACTIONS // by,
                concentration=0.3,
            ),
            setting,
        )
        for system, sizes in ITEMS.items()
        for n_items in (sizes[:5:2] if setting.quick else sizes)
    ]


def growth(items: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent e of seconds ∝ items^e, by least squares of the logarithms."""
    return float(np.polyfit(np.log(items), np.log(seconds), 1)[0])


def write(rows: Sequence[Row], out: Path, setting: Setting) -> None:
    """A panel for each part, a line for each system, and the growth rates."""
    sheets.write_rows(rows, out, NAME)
    figure, axes = sheets.panels(len(PARTS))
    cells = []
    for panel, part in zip(axes, PARTS, strict=True):
        for (system, label), colour, mark in zip(
            (("sdgar", "SD-GAR"), ("irgan", "IRGAN")), sheets.COLOURS, sheets.MARKS, strict=False
        ):
            mine = [row for row in rows if row["system"] == system]
            items, seconds = [r["items"] for r in mine], [r[part] for r in mine]
            slope = float(np.polyfit(items, seconds, 1)[0])
            exponent = growth(items, seconds)
            panel.plot(
                items, seconds, marker=mark, color=colour, label=f"{label}: M^{exponent:.2f}"
            )
            cells.append(
                [part, label, f"{items[0]:,}: {seconds[0]:.3g} s",
                 f"{items[-1]:,}: {seconds[-1]:.3g} s",
                 f"{exponent:.2f}", f"{1e5 * slope:.3g} s"]
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="items M", ylabel=f"seconds, {part}")
        panel.legend()
    sheets.write_figure(figure, out, NAME)
    head = [
        "part",
        "system",
        "fewest items",
        "most items",
        "exponent of M",
        "for 100,000 items more",
    ]
    note = (
        f"Made-up data, {rows[0]['interactions']:,} positives of {rows[0]['users']:,} users at "
        "every size. The exponent is fitted to the logarithms of all points of a line."
    )
    sheets.write_markdown(
        out, NAME, [f"# {TITLE}", sheets.markdown_table(head, cells), note, sheets.made_on(rows)]
    )
