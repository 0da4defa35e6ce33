"""The training trend: test NDCG@50 by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sdgar.lab.paper import sheets
from sdgar.lab.paper.chosen import NAMES, settings_of
from sdgar.lab.paper.measurements import Measurement, Row, Setting
from sdgar.lab.paper.sources import TITLES
from sdgar.lab.paper.training import training

NAME = "trend"
TITLE = "NDCG@50 by epoch"
SYSTEMS = ("sdsoftmax", "sdgar", "dns", "sa", "bpr")
DATA, QUICK_DATA = "gowalla", "citeulike"
DIM = 32


def measurements(setting: Setting) -> list[Measurement]:
    """Return 75 epochs of each system at D = 32, on Gowalla; quick: on CiteULike, one seed."""
    data = QUICK_DATA if setting.quick else DATA
    seeds = setting.seeds[:1] if setting.quick else setting.seeds
    return [
        training(system, data, seed, "paper", settings_of(system, data) | {"dim": DIM}, setting)
        for system in SYSTEMS
        for seed in seeds
    ]


def write(rows: Sequence[Row], out: Path, setting: Setting) -> None:
    """Write a line for each system, with the range over seeds."""
    points = [
        {"data": row["data"], "real": row["real"], "system": row["system"], "seed": row["seed"],
         "epoch": epoch, "ndcg@50": value, "made_on": row["made_on"]}
        for row in rows for epoch, value in row["curve"]
    ]  # fmt: skip
    sheets.write_rows(points, out, NAME)
    data = rows[0]["data"]
    figure, (axes,) = sheets.panels(1, height=4.5)
    cells = []
    for system, colour, mark in zip(SYSTEMS, sheets.COLOURS, sheets.MARKS, strict=False):
        label = NAMES[system]
        curves = np.array([row["curve"] for row in rows if row["system"] == system])
        epochs, values = curves[0, :, 0], curves[:, :, 1]
        axes.plot(epochs, values.mean(axis=0), marker=mark, color=colour, label=label)
        axes.fill_between(epochs, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2)
        best = int(values.mean(axis=0).argmax())
        cells.append([label, f"{values.mean(axis=0)[0]:.4f}", f"{values.mean(axis=0)[-1]:.4f}",
                      f"{values.mean(axis=0)[best]:.4f} at {int(epochs[best])}"])  # fmt: skip
    title = TITLES[data] + ("" if rows[0]["real"] else " (made up)")
    axes.set(xlabel="epoch", ylabel="NDCG@50, test rows", title=f"{title}, D = {DIM}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=len(SYSTEMS), loc="lower right")
    sheets.write_figure(figure, out, NAME)
    sheets.write_markdown(
        out,
        NAME,
        [
            f"# {TITLE}: {title}",
            sheets.markdown_table(["system", "epoch 5", "epoch 75", "best"], cells),
            f"Test rows, D = {DIM}, settings chosen on validation rows, {len(values)} seeds; bands "
            "are the range over seeds. An epoch is a pass over the positives, and costs systems "
            "differently.",
            sheets.made_on(rows),
        ],
    )
