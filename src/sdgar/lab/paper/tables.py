"""Table 1: the data sets. Table 2: NDCG@50 of the paper's systems and of baselines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sdgar.evaluation.counts import Counts
from sdgar.evaluation.paired import compare
from sdgar.evaluation.report import Report
from sdgar.lab.paper import sheets
from sdgar.lab.paper.chosen import (
    BASELINES,
    MOST_EPOCHS,
    NAMES,
    PAPER,
    REAL,
    SYSTEMS,
    settings_of,
)
from sdgar.lab.paper.data_sets import PAPER_SIZES, TITLES, is_real, source
from sdgar.lab.paper.measurements import Experiment, Measurement, Row, Setting, training, unpacked
from sdgar.lab.paper.sheets import Sheet
from sdgar.settings import METRIC
from sdgar.training.trained import OnPhase

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table1_measurements(setting: Setting) -> list[Measurement]:
    """Return a measurement for each data set; synthetic ones always have the paper's size."""

    def statistics(name: str, _: OnPhase) -> dict[str, Any]:
        found = source(name, setting.data)
        both = found.train.merge(found.test)
        stats = both.stats()
        return {
            "users": int(stats["users"]),
            "items": int(stats["items"]),
            "interactions": int(stats["interactions"]),
            "density": stats["density"],
            "test_rows": len(found.test),
            "how": found.how,
        }

    return [
        Measurement(
            key={"data": name, "real": is_real(name, setting.data)},
            measure=partial(statistics, name),
            seconds=PAPER_SIZES[name][2] / 200_000,
        )
        for name in PAPER_SIZES
    ]


def write_table1(rows: Sequence[Row], sheet: Sheet, setting: Setting) -> None:
    """Write the table as Markdown, JSON and CSV."""
    sheet.write_rows(rows)
    head = ["data set", "users", "paper's", "items", "paper's", "interactions", "paper's",
            "density", "source"]  # fmt: skip
    cells = []
    for row in rows:
        sizes = zip(("users", "items", "interactions"), PAPER_SIZES[row["data"]], strict=True)
        numbers = [f"{value:,}" for field, said in sizes for value in (row[field], said)]
        kind = "real, " if row["real"] else ""
        cells.append(
            [TITLES[row["data"]], *numbers, f"{row['density']:.3%}", f"{kind}{row['how']}"]
        )
    sheet.write_markdown(
        [
            sheets.markdown_table(head, cells),
            "Only items that occur are counted; the paper's counts of CiteULike and MovieLens are "
            "of columns, some of which are empty. Synthetic sets have the paper's sizes and a like "
            "concentration on popular items, and nothing else of the real ones.",
            sheets.made_on(rows),
        ],
    )


Groups = dict[tuple[str, str, str], list[Row]]
"""The runs by protocol, data set and label."""
DIM = 32
OURS = {"sdsoftmax, D = 32": {"dim": DIM}, "sdsoftmax, D = 128": {"dim": 128}}
OF = "sdgar"
"""The system whose improvement over the others is shown."""
PROTOCOLS = ("validated", "paper")
QUICK_DATA, QUICK_EPOCHS = ("citeulike",), 20


def table2_measurements(setting: Setting) -> list[Measurement]:
    """Return a measurement for every system with every seed and protocol.

    Quick: CiteULike, one seed, 20 epochs at most, and no EASE, whose inverse takes ten minutes.
    """
    made = []
    for data in QUICK_DATA if setting.quick else REAL:
        for label, system, settings in entrants(data, quick=setting.quick):
            baseline = system in BASELINES
            protocols = PROTOCOLS[:1] if setting.quick or baseline else PROTOCOLS
            seeds = setting.seeds[:1] if setting.quick or baseline else setting.seeds
            made += [
                training(system, data, seed, protocol, settings, setting, users=True, label=label)
                for protocol in protocols
                for seed in seeds
            ]
    return made


def entrants(data: str, *, quick: bool) -> list[tuple[str, str, dict[str, Any]]]:
    """Return label, system and settings of every row."""
    most = QUICK_EPOCHS if quick else 300
    found: list[tuple[str, str, dict[str, Any]]] = []
    for system in SYSTEMS:
        epochs = min(most, MOST_EPOCHS.get(system, most))
        settings = settings_of(system, data) | {"dim": DIM, "epochs": epochs}
        if quick and system == "irgan":
            settings |= {"sampler__pretrain": 10}
        found.append((system, system, settings))
    found += [
        (label, "sdsoftmax", settings_of("sdsoftmax", data) | own | {"epochs": most})
        for label, own in OURS.items()
    ]
    for system in BASELINES:
        if quick and system == "ease":
            continue
        settings = dict(settings_of(system, data))
        if system == "ials":
            settings["dim"] = DIM
        found.append((system, system, settings))
    return found


def write_table2(rows: Sequence[Row], sheet: Sheet, setting: Setting) -> None:
    """Write the values, SD-GAR's improvements with paired tests, and a picture."""
    sheet.write_rows([{k: v for k, v in row.items() if k != "per_user"} for row in rows])
    groups: Groups = defaultdict(list)
    for row in rows:
        groups[row["protocol"], row["data"], row["label"]].append(row)
    sets = list(dict.fromkeys(row["data"] for row in rows))
    paired = _paired(groups)
    sheet.write_rows(paired, suffix="-paired")
    real = all(row["real"] for row in rows)
    sheet.write_markdown(
        [
            _values(sets, groups),
            f"validated: epochs chosen on 10 % of the training rows, refit on all, test read once. "
            f"paper protocol: the best test value over epochs 5, 10, …, 75, which is optimistic. "
            f"D = {DIM} where nothing else is said; ± standard deviation over seeds."
            + (
                ""
                if real
                else " **Synthetic data: the numbers cannot be compared with the paper's.**"
            )
            + (" Quick: one seed, at most 20 epochs, no EASE." if setting.quick else ""),
            "## SD-GAR's improvement over each",
            _improvements(sets, groups, paired),
            "Brackets: 95 % bootstrap interval over users of the difference, as a share of the "
            "other's mean; p: paired sign-flip test over users; both of the means over seeds, and "
            "so of these runs: another seed moves a mean by the ± above.",
            sheets.made_on(rows),
        ],
    )
    sheet.write_figure(_figure(sets, groups))


def _paired(groups: Groups) -> list[Row]:
    """Compare SD-GAR with every other system on the same users."""
    found = []
    for (protocol, data, label), theirs in groups.items():
        ours = groups.get((protocol, data, OF), [])
        if label == OF or not ours:
            continue
        paired = compare(_report(ours), _report(theirs), METRIC)
        mean = float(np.mean([row[METRIC] for row in theirs]))
        found.append(
            {"protocol": protocol, "data": data, "label": label, "difference": paired.difference,
             "low": paired.low, "high": paired.high, "p": paired.sign_flip_p, "their_mean": mean}
        )  # fmt: skip
    return found


def _values(sets: Sequence[str], groups: Groups) -> str:
    head = ["system"]
    for data in sets:
        head += [f"{TITLES[data]}, validated", "paper protocol", "paper's"]
    cells = []
    for label in _labels(groups):
        line = [_title(label)]
        for data in sets:
            line += [
                sheets.mean_and_spread([r[METRIC] for r in groups.get((protocol, data, label), [])])
                for protocol in PROTOCOLS
            ]
            said = _said(label, data)
            line.append("–" if said is None else f"{said:.4f}")
        cells.append(line)
    return sheets.markdown_table(head, cells)


def _improvements(sets: Sequence[str], groups: Groups, paired: Sequence[Row]) -> str:
    head = ["over"]
    for data in sets:
        head += [f"{TITLES[data]}, validated", "paper's"]
    found = {(row["data"], row["label"]): row for row in paired if row["protocol"] == "validated"}
    cells = []
    for label in _labels(groups):
        if label == OF:
            continue
        line = [_title(label)]
        for data in sets:
            row, said, best = found.get((data, label)), _said(label, data), _said(OF, data)
            line += [
                "–" if row is None else _share(row),
                "–" if said is None or best is None else f"{best / said - 1:+.1%}",
            ]
        cells.append(line)
    return sheets.markdown_table(head, cells)


def _share(row: Row) -> str:
    share, low, high = (row[k] / row["their_mean"] for k in ("difference", "low", "high"))
    return f"{share:+.1%} [{low:+.1%}, {high:+.1%}], {_p(row['p'])}"


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _figure(sets: Sequence[str], groups: Groups) -> Figure:
    """Draw a dot for each system: ours by both protocols, and the paper's."""
    figure, axes = sheets.panels(len(sets), height=4.6, share_y=True)
    labels = _labels(groups)
    blue, orange, amber = sheets.COLOURS[0], sheets.COLOURS[1], sheets.COLOURS[4]
    for one, data in zip(axes, sets, strict=True):
        for place, label in enumerate(labels):
            colour = orange if label in OURS else blue
            chosen, lucky = (
                [row[METRIC] for row in groups.get((protocol, data, label), [])]
                for protocol in PROTOCOLS
            )
            one.plot([min(chosen), max(chosen)], [place] * 2, color=colour, linewidth=2)
            one.plot(np.mean(chosen), place, "o", color=colour, markersize=7, zorder=3)
            if lucky:
                one.plot(np.mean(lucky), place, "o", markerfacecolor="none", color=colour,
                         markersize=10)  # fmt: skip
            if (said := _said(label, data)) is not None:
                one.plot(said, place, "D", color=amber, markersize=6)
        one.set_yticks(range(len(labels)), [_title(label) for label in labels])
        one.set(title=TITLES[data], xlabel="NDCG@50, test rows", xlim=(0, None))
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    sheets.legend_below(
        figure,
        [("o", blue, "full", "validated (line: range over seeds)"),
         ("o", blue, "none", "paper protocol"), ("D", amber, "full", "the paper's own number")],
    )  # fmt: skip
    return figure


def _labels(groups: Groups) -> list[str]:
    return list(dict.fromkeys(label for _, _, label in groups))


def _title(label: str) -> str:
    system, comma, rest = label.partition(",")
    return NAMES[system] + comma + rest


def _said(label: str, data: str) -> float | None:
    return PAPER[label][REAL.index(data)] if label in PAPER and data in REAL else None


def _report(runs: Sequence[Row]) -> Report:
    per_user_T = np.mean([unpacked(run["per_user"]) for run in runs], axis=0)
    return Report(np.arange(len(per_user_T)), {METRIC: per_user_T}, Counts(**runs[0]["counts"]))


TABLE1 = Experiment("table1", "Table 1: the data sets", table1_measurements, write_table1)
TABLE2 = Experiment("table2", "Table 2: NDCG@50", table2_measurements, write_table2)
