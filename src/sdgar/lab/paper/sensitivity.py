"""The effect of D, of the negatives and of the generator's samples on NDCG@50."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from sdgar.lab.paper import sheets
from sdgar.lab.paper.chosen import settings_of
from sdgar.lab.paper.measurements import Measurement, Row, Setting
from sdgar.lab.paper.sources import TITLES
from sdgar.lab.paper.training import training
from sdgar.settings import METRIC

NAME = "sensitivity"
TITLE = "What SD-GAR is sensitive to"
AXES: dict[str, tuple[tuple[int, ...], str]] = {
    "dim": ((16, 32, 64, 128, 256), "embedding size D"),
    "n_negatives": ((1, 5, 10, 15, 20), "negatives |S_c| of the discriminator"),
    "sampler__samples": ((8, 16, 32, 64, 128), "samples |S_c| = |S_i| of the generator"),
}
DATA, QUICK_DATA, QUICK_EPOCHS = ("citeulike", "gowalla"), ("citeulike",), 10
DIM = 32


def measurements(setting: Setting) -> list[Measurement]:
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


def write(rows: Sequence[Row], out: Path, setting: Setting) -> None:
    """Write a panel for each axis, a line for each data set."""
    sheets.write_rows(rows, out, NAME)
    figure, panels = sheets.panels(len(AXES), share_y=True)
    sets = list(dict.fromkeys(row["data"] for row in rows))
    parts = [f"# {TITLE}"]
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
    sheets.write_figure(figure, out, NAME)
    note = "Validated protocol; the other settings as chosen on validation rows at D = 32."
    if setting.quick:
        note += " Quick: one seed, at most 10 epochs."
    sheets.write_markdown(out, NAME, [*parts, note, sheets.made_on(rows)])
