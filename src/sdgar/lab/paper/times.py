"""The seconds of an epoch at the shapes of Amazon and Echonest: SD-GAR against IRGAN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sdgar.lab.paper import sheets
from sdgar.lab.paper.chosen import NAMES
from sdgar.lab.paper.cost import PARTS, SYSTEMS, cost, scaled
from sdgar.lab.paper.measurements import Measurement, Row, Setting
from sdgar.lab.paper.sources import TITLES

NAME = "time"
TITLE = "Seconds per epoch: SD-GAR against IRGAN"
SHAPES = ("amazon", "echonest")
QUICK_SHARE = 1 / 40
PAPER = {"amazon": (20, 5), "echonest": (10, 5)}
"""How many times faster the paper says D and G are."""


def measurements(setting: Setting) -> list[Measurement]:
    """Return measurements of both systems at both shapes.

    Quick: a fortieth of the users, items and interactions.
    """
    share = QUICK_SHARE if setting.quick else 1.0
    return [
        cost(system, scaled(shape, share), setting, like=shape)
        for shape in SHAPES
        for system in SYSTEMS
    ]


def write(rows: Sequence[Row], out: Path, setting: Setting) -> None:
    """Write seconds and ratios, by shape and device."""
    sheets.write_rows(rows, out, NAME)
    cells = []
    figure, axes = sheets.panels(len(SHAPES), height=4.4, share_y=True)
    for panel, shape in zip(axes, SHAPES, strict=True):
        ticks: list[str] = []
        for device, group in sheets.by_device(r for r in rows if r["like"] == shape).items():
            ours, theirs = (next(r for r in group if r["system"] == s) for s in SYSTEMS)
            for part, said in zip(PARTS, PAPER[shape], strict=True):
                least = _least(ours, theirs) if part == "discriminator" else None
                ratio = theirs[part] / ours[part]
                cells.append(
                    [TITLES[shape], device, part, f"{ours[part]:.3g}", f"{theirs[part]:.3g}",
                     f"{ratio:.1f}", "–" if least is None else f"{least:.1f}", said]
                )  # fmt: skip
                _bars(panel, len(ticks), ours[part], theirs[part], ratio)
                if part == "discriminator":
                    at = len(ticks)
                    panel.plot(
                        [at + 0.02, at + 0.38], [theirs["proposals"]] * 2, color="black", lw=1.5
                    )
                ticks.append(f"{part}\n{device}")
        panel.set_xticks(range(len(ticks)), ticks, fontsize=8)
        panel.grid(visible=False, axis="x")
        panel.set(
            yscale="log",
            title=f"{TITLES[shape]}'s shape: {ours['users']:,} users, {ours['items']:,} items",
        )
        panel.title.set_fontsize(10)
    low, high = axes[0].get_ylim()
    axes[0].set(ylabel="seconds an epoch, or an update", ylim=(low, 3 * high))
    blue, orange = sheets.COLOURS[:2]
    sheets.legend_below(
        figure,
        [("s", blue, "full", NAMES["sdgar"]), ("s", orange, "full", NAMES["irgan"]),
         ("_", "black", "full", "IRGAN's draws alone")],
    )  # fmt: skip
    sheets.write_figure(figure, out, NAME)
    head = ["shape", "device", "part", "SD-GAR, s", "IRGAN, s", "ratio",
            "ratio with SD-GAR's steps", "the paper's ratio"]  # fmt: skip
    note = (
        "Made-up data of the data set's shape, D = 32, one negative a positive, K = 64, 64 samples "
        "for the generators' updates; medians of three rounds, or one round where it takes over a "
        "minute. IRGAN's softmax is exact, in blocks on the same device, once a context. *Ratio "
        "with SD-GAR's steps*: IRGAN's draws alone with the epoch of SD-GAR added, over the epoch "
        "of SD-GAR, that is if IRGAN's steps were as fast: what the drawing itself costs."
    )
    if setting.quick:
        note += " Quick: a fortieth of users, items and interactions, where the ratio is smaller."
    sheets.write_markdown(
        out, NAME, [f"# {TITLE}", sheets.markdown_table(head, cells), note, sheets.made_on(rows)]
    )


def _least(ours: Row, theirs: Row) -> float:
    """Return the ratio if IRGAN's steps cost what all of SD-GAR's epoch costs."""
    ratio: float = 1 + theirs["proposals"] / ours["discriminator"]
    return ratio


def _bars(panel: Any, place: int, ours: float, theirs: float, ratio: float) -> None:
    panel.bar(place - 0.2, ours, 0.36, color=sheets.COLOURS[0])
    panel.bar(place + 0.2, theirs, 0.36, color=sheets.COLOURS[1])
    panel.annotate(f"×{ratio:.0f}", (place + 0.2, theirs), (0, 3), textcoords="offset points",
                   ha="center")  # fmt: skip
