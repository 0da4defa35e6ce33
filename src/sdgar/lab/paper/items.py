"""Seconds per epoch against the number of items: SD-GAR and IRGAN."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sdgar.data.synthetic import Shape
from sdgar.lab.paper import sheets
from sdgar.lab.paper.cost import PARTS, cost
from sdgar.lab.paper.measurements import Measurement, Row, Setting

NAME = "items"
TITLE = "Seconds per epoch against the number of items"
ITEMS = {
    "sdgar": (20_000, 40_000, 60_000, 80_000, 100_000, 300_000, 1_000_000),
    "irgan": (20_000, 40_000, 60_000, 80_000, 100_000),
}
USERS, INTERACTIONS = 50_000, 2_000_000
QUICK_SHARE = 50
LINES = (
    ("sdgar", None, "SD-GAR"),
    ("irgan", None, "IRGAN"),
    ("irgan", "proposals", "IRGAN's draws alone"),
)
"""The lines of a panel: the system, the column if it is another, and the name of the line."""


def measurements(setting: Setting) -> list[Measurement]:
    """Return measurements by number of items, on 2 million positives of 50,000 users.

    Quick: a fiftieth of the users, positives and items.
    """
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
    """Return the exponent e of seconds ∝ items^e, by least squares of the logarithms."""
    return float(np.polyfit(np.log(items), np.log(seconds), 1)[0])


def straight(items: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float]:
    """Return a, b and R² of seconds ≈ a + b · items, by least squares."""
    b, a = np.polyfit(items, seconds, 1)
    left = np.var(np.asarray(seconds) - a - b * np.asarray(items))
    return float(a), float(b), float(1 - left / max(np.var(seconds), np.finfo(float).tiny))


def write(rows: Sequence[Row], out: Path, setting: Setting) -> None:
    """Write a row of panels for each device, a panel for each part, a line for each system."""
    sheets.write_rows(rows, out, NAME)
    devices = sheets.by_device(rows)
    figure, axes = sheets.panels(len(PARTS), rows=len(devices))
    sizes = sorted({row["items"] for row in rows})
    shared = sorted({row["items"] for row in rows if row["system"] == "irgan"})
    shown = list(dict.fromkeys((shared[0], shared[-1], sizes[-1])))
    cells = []
    places = itertools.product(devices.items(), PARTS)
    for panel, ((device, group), part) in zip(axes, places, strict=True):
        for (system, column, label), colour, mark, style in zip(
            LINES, (*sheets.COLOURS[:2], sheets.COLOURS[4]), sheets.MARKS, ("-", "-", "--"),
            strict=False,
        ):  # fmt: skip
            mine = sorted(
                (row for row in group if row["system"] == system), key=lambda row: row["items"]
            )
            key = column or part
            if column is not None and part != "discriminator":
                continue
            items, seconds = [r["items"] for r in mine], [r[key] for r in mine]
            exponent = growth(items, seconds)
            panel.plot(items, seconds, style, marker=mark, color=colour)
            a, b, fit = straight(items, seconds)
            at = dict(zip(items, seconds, strict=True))
            cells.append(
                [device, part, label, *(f"{at[m]:.3g}" if m in at else "–" for m in shown),
                 f"{exponent:.2f}", f"{a:.3g} + {1e5 * b:.3g} · M/100,000", f"{fit:.3f}"]
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="items M", ylabel="seconds",
                  title=f"{part}, {device}")  # fmt: skip
        panel.yaxis.set_minor_formatter("")
    marks = zip(sheets.MARKS, (*sheets.COLOURS[:2], sheets.COLOURS[4]), LINES, strict=False)
    sheets.legend_below(figure, [(m, colour, "full", line[2]) for m, colour, line in marks])
    sheets.write_figure(figure, out, NAME)
    head = ["device", "part", "system", *(f"s at M = {m:,}" for m in shown), "exponent of M",
            "straight line, s", "R²"]  # fmt: skip
    note = (
        f"Made-up data, {rows[0]['interactions']:,} positives of {rows[0]['users']:,} users at "
        "every size; D = 32, one negative a positive. Exponent: fitted to the logarithms of all "
        "points of a line; straight line: by least squares. What does not grow with M (contexts, "
        "steps, launches) makes an exponent smaller than 1 where growth is linear."
    )
    sheets.write_markdown(
        out, NAME, [f"# {TITLE}", sheets.markdown_table(head, cells), note, sheets.made_on(rows)]
    )
