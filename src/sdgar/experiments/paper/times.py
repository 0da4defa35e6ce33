"""Seconds per epoch at the shapes of Amazon and Echonest: SD-GAR against IRGAN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdgar.experiments.paper import sheets
from sdgar.experiments.paper.cost import cost, scaled
from sdgar.experiments.paper.pieces import Piece, Row, Setting
from sdgar.experiments.paper.sources import TITLES

NAME = "time"
TITLE = "Seconds per epoch: SD-GAR against IRGAN"
SHAPES = ("amazon", "echonest")
QUICK_SHARE = 1 / 40
PAPER = {"amazon": (20, 5), "echonest": (10, 5)}
"""How many times faster the paper says D and G are."""


def pieces(setting: Setting) -> list[Piece]:
    """Both systems at both shapes; quick: a fortieth of the users, items and interactions."""
    share = QUICK_SHARE if setting.quick else 1.0
    return [
        cost(system, scaled(shape, share), setting, like=shape)
        for shape in SHAPES
        for system in ("sdgar", "irgan")
    ]


def write(rows: Sequence[Row], out: Path, setting: Setting) -> None:
    """Seconds and ratios."""
    sheets.write_rows(rows, out, NAME)
    cells = []
    figure, axes = sheets.panels(len(SHAPES))
    for panel, shape in zip(axes, SHAPES, strict=True):
        ours, theirs = (
            next(r for r in rows if r["like"] == shape and r["system"] == system)
            for system in ("sdgar", "irgan")
        )
        for part, said in zip(("discriminator", "generator"), PAPER[shape], strict=True):
            cells.append(
                [TITLES[shape], part, f"{ours[part]:.3g}", f"{theirs[part]:.3g}",
                 f"{theirs[part] / ours[part]:.1f}", said]
            )  # fmt: skip
        for place, part in enumerate(("discriminator", "generator")):
            for shift, (row, label) in enumerate(((ours, "SD-GAR"), (theirs, "IRGAN"))):
                panel.bar(
                    place + 0.4 * shift, row[part], 0.36, color=sheets.COLOURS[shift],
                    label=label if place == 0 else None,
                )  # fmt: skip
        panel.set_xticks((0.2, 1.2), ("discriminator's epoch", "generator's update"))
        size = f"{ours['users']:,} users, {ours['items']:,} items"
        panel.set(yscale="log", ylabel="seconds", title=f"{TITLES[shape]}'s shape: {size}")
        panel.legend()
    sheets.write_figure(figure, out, NAME)
    head = ["shape", "part", "SD-GAR, s", "IRGAN, s", "ratio", "the paper's ratio"]
    note = (
        "Made-up data of the data set's shape, D = 32, one negative a positive, K = 64, 64 samples "
        "for the generators' updates; medians of three rounds. IRGAN's softmax is exact, in blocks "
        "on the same device."
    )
    if setting.quick:
        note += " Quick: a fortieth of users, items and interactions, where the ratio is smaller."
    sheets.write_markdown(
        out, NAME, [f"# {TITLE}", sheets.markdown_table(head, cells), note, sheets.made_on(rows)]
    )
