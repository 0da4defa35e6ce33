"""Tables 1 and 2 of the paper, and its figures of NDCG@50 by epoch and by settings of SD-GAR."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from sdgar.data.merge import merge
from sdgar.evaluation.paired import compare
from sdgar.evaluation.ranked import Counts
from sdgar.evaluation.report import Report
from sdgar.lab.paper import sheets
from sdgar.lab.paper.chosen import (
    BASELINES,
    MOST_EPOCHS,
    NAMES,
    PAPER,
    PAPER_SIZES,
    REAL,
    SYSTEMS,
    TITLES,
    is_real,
    settings_of,
    source,
)
from sdgar.lab.paper.measurements import Experiment, PaperOptions, Piece, Row, training, unpacked
from sdgar.lab.paper.sheets import Sheet
from sdgar.settings import METRIC
from sdgar.training.records import OnPhase

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM = 32


def table1_pieces(options: PaperOptions) -> list[Piece]:
    """Return a measurement for each data set; synthetic ones always have the paper's size."""

    def statistics(name: str, _: OnPhase) -> dict[str, Any]:
        rows = source(name, options.data)
        stats = merge(rows.train, rows.held_out).stats()
        sizes = {field: int(stats[field]) for field in ("users", "items", "interactions")}
        more = {"density": stats["density"], "test_rows": len(rows.held_out), "how": rows.how}
        return sizes | more

    return [
        Piece(
            key={"data": name, "real": is_real(name, options.data)},
            measure=partial(statistics, name),
        )
        for name in PAPER_SIZES
    ]


def table1_sheet(rows: Sequence[Row], options: PaperOptions) -> Sheet:
    """Return the sizes of the data sets, here and in the paper."""
    head = ["data set", "users", "paper's", "items", "paper's", "interactions", "paper's",
            "density", "source"]  # fmt: skip
    cells = []
    for row in rows:
        sizes = zip(("users", "items", "interactions"), PAPER_SIZES[row["data"]], strict=True)
        numbers = [f"{value:,}" for field, papers in sizes for value in (row[field], papers)]
        kind = "real, " if row["real"] else ""
        density = f"{row['density']:.3%}"
        cells.append([TITLES[row["data"]], *numbers, density, f"{kind}{row['how']}"])
    note = (
        "Only items that occur are counted; the paper's counts of CiteULike and MovieLens are "
        "of columns, some of which are empty. Synthetic sets have the paper's sizes and a like "
        "concentration on popular items, and nothing else of the real ones."
    )
    return Sheet([sheets.markdown_table(head, cells), note])


Groups = dict[tuple[str, str, str], list[Row]]
"""The runs by protocol, data set and label."""
OURS = {"sdsoftmax, D = 32": {"dim": DIM}, "sdsoftmax, D = 128": {"dim": 128}}
OF = "sdgar"
"""The system whose improvement over the others is shown."""
PROTOCOLS = ("validated", "paper")
QUICK_DATA, QUICK_EPOCHS = ("citeulike",), 20


def table2_pieces(options: PaperOptions) -> list[Piece]:
    """Return a measurement for every system with every seed and protocol.

    Quick: CiteULike, one seed, 20 epochs at most, and no EASE, whose inverse takes ten minutes.
    """
    made = []
    for data in QUICK_DATA if options.quick else REAL:
        for label, system, settings in entrants(data, quick=options.quick):
            once = options.quick or system in BASELINES
            made += [
                training(system, data, seed, protocol, settings, options, users=True, label=label)
                for protocol in (PROTOCOLS[:1] if once else PROTOCOLS)
                for seed in (options.seeds[:1] if once else options.seeds)
            ]
    return made


def entrants(data: str, *, quick: bool) -> list[tuple[str, str, dict[str, Any]]]:
    """Return label, system and settings of every row."""
    most = QUICK_EPOCHS if quick else 300
    found: list[tuple[str, str, dict[str, Any]]] = [
        (system, system, {"dim": DIM, "epochs": min(most, MOST_EPOCHS.get(system, most))})
        for system in SYSTEMS
    ]
    found += [(label, "sdsoftmax", own | {"epochs": most}) for label, own in OURS.items()]
    for system in BASELINES:
        if not (quick and system == "ease"):
            found.append((system, system, {"dim": DIM} if system == "ials" else {}))
    shorter = {"irgan": {"sampler__pretrain": 10}} if quick else {}
    return [
        (label, system, settings_of(system, data) | own | shorter.get(system, {}))
        for label, system, own in found
    ]


def table2_sheet(rows: Sequence[Row], options: PaperOptions) -> Sheet:
    """Return the values, SD-GAR's improvements with paired tests, and a picture."""
    groups: Groups = defaultdict(list)
    for row in rows:
        groups[row["protocol"], row["data"], row["label"]].append(row)
    sets = list(dict.fromkeys(row["data"] for row in rows))
    paired = _paired(groups)
    note = (
        "validated: epochs chosen on 10 % of the training rows, refit on all, test read once. "
        "paper protocol: the best test value over epochs 5, 10, …, 75, which is optimistic. "
        f"D = {DIM} where nothing else is said; ± standard deviation over seeds."
    )
    if not all(row["real"] for row in rows):
        note += " **Synthetic data: the numbers cannot be compared with the paper's.**"
    if options.quick:
        note += " Quick: one seed, at most 20 epochs, no EASE."
    labels = list(dict.fromkeys(row["label"] for row in rows))
    others = [label for label in labels if label != OF]
    of_data = [(f"{TITLES[data]}, validated", "paper protocol", "paper's") for data in sets]
    values = [
        [_title(label), *(cell for data in sets for cell in _value(groups, data, label))]
        for label in labels
    ]
    improvements = [
        [_title(label), *(cell for data in sets for cell in _improvement(paired, data, label))]
        for label in others
    ]
    parts = [
        sheets.markdown_table(["system", *itertools.chain(*of_data)], values),
        note,
        "## SD-GAR's improvement over each",
        sheets.markdown_table(["over", *(h for head in of_data for h in head[::2])], improvements),
        "Brackets: 95 % bootstrap interval over users of the difference, as a share of the "
        "other's mean; p: paired sign-flip test over users; both of the means over seeds, and "
        "so of these runs: another seed moves a mean by the ± above.",
    ]
    plain = [{k: v for k, v in row.items() if k != "per_user"} for row in rows]
    return Sheet(parts, _dots(sets, labels, groups), {"": plain, "-paired": paired})


def _paired(groups: Groups) -> list[Row]:
    """Compare SD-GAR with every other system on the same users."""
    found = []
    for (protocol, data, label), theirs in groups.items():
        ours = groups.get((protocol, data, OF), [])
        if label == OF or not ours:
            continue
        paired = compare(_report(ours), _report(theirs), METRIC)
        their_mean = float(np.mean(_metrics(theirs)))
        found.append(
            {"protocol": protocol, "data": data, "label": label, "difference": paired.difference,
             "low": paired.low, "high": paired.high, "p": paired.sign_flip_p,
             "their_mean": their_mean}
        )  # fmt: skip
    return found


def _metrics(rows: Sequence[Row]) -> list[float]:
    return [row[METRIC] for row in rows]


def _value(groups: Groups, data: str, label: str) -> list[str]:
    runs = [groups.get((protocol, data, label), []) for protocol in PROTOCOLS]
    papers = _of_paper(label, data)
    ours = (sheets.mean_and_spread(_metrics(one)) for one in runs)
    return [*ours, "–" if papers is None else f"{papers:.4f}"]


def _improvement(paired: Sequence[Row], data: str, label: str) -> list[str]:
    theirs, best = _of_paper(label, data), _of_paper(OF, data)
    of_paper = "–" if theirs is None or best is None else f"{best / theirs - 1:+.1%}"
    keys = {"protocol": "validated", "data": data, "label": label}
    return [next((_share(row) for row in paired if keys.items() <= row.items()), "–"), of_paper]


def _share(row: Row) -> str:
    share, low, high = (row[k] / row["their_mean"] for k in ("difference", "low", "high"))
    p = "p < 0.001" if row["p"] < 0.001 else f"p = {row['p']:.2g}"
    return f"{share:+.1%} [{low:+.1%}, {high:+.1%}], {p}"


def _dots(sets: Sequence[str], labels: Sequence[str], groups: Groups) -> Figure:
    """Draw a dot for each system: ours by both protocols, and the paper's."""
    figure, axes = sheets.panels(len(sets), height=4.6, share_y=True)
    blue, orange, amber = sheets.COLOURS[0], sheets.COLOURS[1], sheets.COLOURS[4]
    for one, data in zip(axes, sets, strict=True):
        for place, label in enumerate(labels):
            colour = orange if label in OURS else blue
            chosen, lucky = (_metrics(groups.get((p, data, label), [])) for p in PROTOCOLS)
            one.plot([min(chosen), max(chosen)], [place] * 2, color=colour, linewidth=2)
            one.plot(np.mean(chosen), place, "o", color=colour, markersize=7, zorder=3)
            if lucky:
                one.plot(np.mean(lucky), place, "o", markerfacecolor="none", color=colour,
                         markersize=10)  # fmt: skip
            if (papers := _of_paper(label, data)) is not None:
                one.plot(papers, place, "D", color=amber, markersize=6)
        one.set_yticks(range(len(labels)), [_title(label) for label in labels])
        one.set(title=TITLES[data], xlabel="NDCG@50, test rows", xlim=(0, None))
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    sheets.legend_below(
        figure,
        [("o", blue, "full", "validated (line: range over seeds)"),
         ("o", blue, "none", "paper protocol"), ("D", amber, "full", "the paper's own number")],
    )  # fmt: skip
    return figure


def _title(label: str) -> str:
    system, comma, rest = label.partition(",")
    return NAMES[system] + comma + rest


def _of_paper(label: str, data: str) -> float | None:
    return PAPER[label][REAL.index(data)] if label in PAPER and data in REAL else None


def _report(runs: Sequence[Row]) -> Report:
    per_user_T = np.mean([unpacked(run["per_user"]) for run in runs], axis=0)
    return Report(np.arange(len(per_user_T)), {METRIC: per_user_T}, Counts(**runs[0]["counts"]))


TREND_SYSTEMS = ("sdsoftmax", "sdgar", "dns", "sa", "bpr")


def trend_pieces(options: PaperOptions) -> list[Piece]:
    """Return 75 epochs of each system at D = 32, on Gowalla; quick: on CiteULike, one seed."""
    data = "citeulike" if options.quick else "gowalla"
    return [
        training(system, data, seed, "paper", settings_of(system, data) | {"dim": DIM}, options)
        for system in TREND_SYSTEMS
        for seed in (options.seeds[:1] if options.quick else options.seeds)
    ]


def trend_sheet(rows: Sequence[Row], options: PaperOptions) -> Sheet:
    """Return a line for each system, with the range over seeds."""
    points = [
        {"data": row["data"], "real": row["real"], "system": row["system"], "seed": row["seed"],
         "epoch": epoch, "ndcg@50": value, "made_on": row["made_on"]}
        for row in rows for epoch, value in row["curve"]
    ]  # fmt: skip
    figure, (axes,) = sheets.panels(1, height=4.5)
    cells, seeds = [], 0
    for system, colour, mark in zip(TREND_SYSTEMS, sheets.COLOURS, sheets.MARKS, strict=False):
        curves = np.array([row["curve"] for row in rows if row["system"] == system])
        epochs, values, seeds = curves[0, :, 0], curves[:, :, 1], len(curves)
        means = values.mean(axis=0)
        axes.plot(epochs, means, marker=mark, color=colour, label=NAMES[system])
        axes.fill_between(epochs, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2)
        best = int(means.argmax())
        cells.append([NAMES[system], f"{means[0]:.4f}", f"{means[-1]:.4f}",
                      f"{means[best]:.4f} at {int(epochs[best])}"])  # fmt: skip
    title = TITLES[rows[0]["data"]] + ("" if rows[0]["real"] else " (synthetic)")
    axes.set(xlabel="epoch", ylabel="NDCG@50, test rows", title=f"{title}, D = {DIM}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=len(TREND_SYSTEMS), loc="lower right")
    note = (
        f"Test rows, D = {DIM}, settings chosen on validation rows, {seeds} seeds; bands are the "
        "range over seeds. An epoch is a pass over the positives, and costs systems differently."
    )
    table = sheets.markdown_table(["system", "epoch 5", "epoch 75", "best"], cells)
    return Sheet([table, note], figure, {"": points}, of=f": {title}")


AXES: dict[str, tuple[tuple[int, ...], str]] = {
    "dim": ((16, 32, 64, 128, 256), "embedding size D"),
    "n_negatives": ((1, 5, 10, 15, 20), "negatives |S_c| of the discriminator"),
    "sampler__samples": ((8, 16, 32, 64, 128), "samples |S_c| = |S_i| of the generator"),
}


def sensitivity_pieces(options: PaperOptions) -> list[Piece]:
    """Return measurements in which one value changes at a time, on CiteULike and Gowalla.

    Quick: CiteULike, ends and middle, one seed, 10 epochs.
    """
    quick, common = options.quick, {"dim": DIM, "epochs": 10 if options.quick else 300}
    return [
        training(
            "sdgar", data, seed, "validated", settings_of("sdgar", data) | common | {axis: value},
            options, axis=axis, value=value,
        )
        for data in (("citeulike",) if quick else ("citeulike", "gowalla"))
        for axis, (values, _) in AXES.items()
        for value in (values[::2] if quick else values)
        for seed in (options.seeds[:1] if quick else options.seeds)
    ]  # fmt: skip


def sensitivity_sheet(rows: Sequence[Row], options: PaperOptions) -> Sheet:
    """Return a panel for each axis, a line for each data set."""
    figure, panels = sheets.panels(len(AXES), share_y=True)
    sets = list(dict.fromkeys(row["data"] for row in rows))
    parts = []
    for panel, (axis, (_, label)) in zip(panels, AXES.items(), strict=True):
        cells, values = [], []
        for data, colour, mark in zip(sets, sheets.COLOURS, sheets.MARKS, strict=False):
            found: dict[int, list[float]] = defaultdict(list)
            for row in rows:
                if row["axis"] == axis and row["data"] == data:
                    found[row["value"]].append(row[METRIC])
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
    note = "Validated protocol; the other settings as chosen on validation rows at D = 32."
    if options.quick:
        note += " Quick: one seed, at most 10 epochs."
    return Sheet([*parts, note], figure)


TABLE1 = Experiment("table1", "Table 1: the data sets", table1_pieces, table1_sheet)
TABLE2 = Experiment("table2", "Table 2: NDCG@50", table2_pieces, table2_sheet)
TREND = Experiment("trend", "NDCG@50 by epoch", trend_pieces, trend_sheet)
SENSITIVITY = Experiment(
    "sensitivity", "What SD-GAR is sensitive to", sensitivity_pieces, sensitivity_sheet
)
