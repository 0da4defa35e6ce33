"""The figures of NDCG@50: by epoch, and by the settings that SD-GAR is sensitive to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

import numpy as np

from sdgar.lab.paper import sheets
from sdgar.lab.paper.chosen import NAMES, settings_of
from sdgar.lab.paper.data_sets import TITLES
from sdgar.lab.paper.measurements import Experiment, Measurement, Row, Setting, training
from sdgar.lab.paper.sheets import Sheet
from sdgar.settings import METRIC

TREND_SYSTEMS = ("sdsoftmax", "sdgar", "dns", "sa", "bpr")
TREND_DATA, QUICK_TREND_DATA = "gowalla", "citeulike"
DIM = 32


def trend_measurements(setting: Setting) -> list[Measurement]:
    """Return 75 epochs of each system at D = 32, on Gowalla; quick: on CiteULike, one seed."""
    data = QUICK_TREND_DATA if setting.quick else TREND_DATA
    seeds = setting.seeds[:1] if setting.quick else setting.seeds
    return [
        training(system, data, seed, "paper", settings_of(system, data) | {"dim": DIM}, setting)
        for system in TREND_SYSTEMS
        for seed in seeds
    ]


def write_trend(rows: Sequence[Row], sheet: Sheet, setting: Setting) -> None:
    """Write a line for each system, with the range over seeds."""
    points = [
        {"data": row["data"], "real": row["real"], "system": row["system"], "seed": row["seed"],
         "epoch": epoch, "ndcg@50": value, "made_on": row["made_on"]}
        for row in rows for epoch, value in row["curve"]
    ]  # fmt: skip
    sheet.write_rows(points)
    data = rows[0]["data"]
    figure, (axes,) = sheets.panels(1, height=4.5)
    cells = []
    for system, colour, mark in zip(TREND_SYSTEMS, sheets.COLOURS, sheets.MARKS, strict=False):
        label = NAMES[system]
        curves = np.array([row["curve"] for row in rows if row["system"] == system])
        epochs, values = curves[0, :, 0], curves[:, :, 1]
        axes.plot(epochs, values.mean(axis=0), marker=mark, color=colour, label=label)
        axes.fill_between(epochs, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2)
        best = int(values.mean(axis=0).argmax())
        cells.append([label, f"{values.mean(axis=0)[0]:.4f}", f"{values.mean(axis=0)[-1]:.4f}",
                      f"{values.mean(axis=0)[best]:.4f} at {int(epochs[best])}"])  # fmt: skip
    title = TITLES[data] + ("" if rows[0]["real"] else " (synthetic)")
    axes.set(xlabel="epoch", ylabel="NDCG@50, test rows", title=f"{title}, D = {DIM}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=len(TREND_SYSTEMS), loc="lower right")
    sheet.write_figure(figure)
    sheet.write_markdown(
        [
            sheets.markdown_table(["system", "epoch 5", "epoch 75", "best"], cells),
            f"Test rows, D = {DIM}, settings chosen on validation rows, {len(values)} seeds; bands "
            "are the range over seeds. An epoch is a pass over the positives, and costs systems "
            "differently.",
            sheets.made_on(rows),
        ],
        of=f": {title}",
    )


AXES: dict[str, tuple[tuple[int, ...], str]] = {
    "dim": ((16, 32, 64, 128, 256), "embedding size D"),
    "n_negatives": ((1, 5, 10, 15, 20), "negatives |S_c| of the discriminator"),
    "sampler__samples": ((8, 16, 32, 64, 128), "samples |S_c| = |S_i| of the generator"),
}
DATA, QUICK_DATA, QUICK_EPOCHS = ("citeulike", "gowalla"), ("citeulike",), 10


def sensitivity_measurements(setting: Setting) -> list[Measurement]:
    """Return measurements in which one value changes at a time.

    Quick: CiteULike, ends and middle, one seed, 10 epochs.
    """
    made = []
    for data in QUICK_DATA if setting.quick else DATA:
        base = settings_of("sdgar", data) | {
            "dim": DIM,
            "epochs": QUICK_EPOCHS if setting.quick else 300,
        }
        for axis, (values, _) in AXES.items():
            for value in values[::2] if setting.quick else values:
                for seed in setting.seeds[:1] if setting.quick else setting.seeds:
                    settings = base | {axis: value}
                    made.append(
                        training(
                            "sdgar",
                            data,
                            seed,
                            "validated",
                            settings,
                            setting,
                            axis=axis,
                            value=value,
                        )
                    )
    return made


def write_sensitivity(rows: Sequence[Row], sheet: Sheet, setting: Setting) -> None:
    """Write a panel for each axis, a line for each data set."""
    sheet.write_rows(rows)
    figure, panels = sheets.panels(len(AXES), share_y=True)
    sets = list(dict.fromkeys(row["data"] for row in rows))
    parts = []
    for panel, (axis, (_, label)) in zip(panels, AXES.items(), strict=True):
        cells = []
        for data, colour, mark in zip(sets, sheets.COLOURS, sheets.MARKS, strict=False):
            found: dict[int, list[float]] = {}
            for row in rows:
                if row["axis"] == axis and row["data"] == data:
                    found.setdefault(row["value"], []).append(row[METRIC])
            values, means = list(found), [mean(v) for v in found.values()]
            spread = [stdev(v) if len(v) > 1 else 0.0 for v in found.values()]
            panel.errorbar(
                values, means, yerr=spread, marker=mark, color=colour, capsize=3, label=TITLES[data]
            )
            cells.append([TITLES[data], *map(sheets.mean_and_spread, found.values())])
        panel.set(xlabel=label, xscale="log")
        panel.set_xticks(values, [str(v) for v in values])
        panel.minorticks_off()
        parts += [f"## {label}", sheets.markdown_table(["", *map(str, values)], cells)]
    panels[0].set_ylabel("NDCG@50, test rows")
    panels[0].legend(frameon=False)
    sheet.write_figure(figure)
    note = "Validated protocol; the other settings as chosen on validation rows at D = 32."
    if setting.quick:
        note += " Quick: one seed, at most 10 epochs."
    sheet.write_markdown([*parts, note, sheets.made_on(rows)])


TREND = Experiment("trend", "NDCG@50 by epoch", trend_measurements, write_trend)
SENSITIVITY = Experiment(
    "sensitivity", "What SD-GAR is sensitive to", sensitivity_measurements, write_sensitivity
)
