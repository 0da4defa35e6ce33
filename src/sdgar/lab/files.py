"""How a comparison is shown: its table on the screen, as CSV, Markdown and LaTeX, and a figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.data.tables import to_table, write_table
from sdgar.errors import ResourceError
from sdgar.evaluation.measures import MEASURES
from sdgar.lab.comparison import ComparedSystems, Standing
from sdgar.runs.figures import BLUE, GREY, ORANGE, new_figure
from sdgar.storage.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = "compare"
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip
_SIGNS = {
    "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "Σ": r"$\Sigma$", "·": r"$\cdot$",
    "–": "--", "<": "$<$", ">": "$>$", "|": "$|$",
}  # fmt: skip


def save(comparison: ComparedSystems, out: Path) -> str | None:
    """Write the table as JSON, CSV and Markdown and draw it; return why it could not be drawn."""
    texts = {
        "json": json.dumps(comparison.as_dict(), indent=2, allow_nan=False) + "\n",
        "md": markdown(comparison),
    }
    for suffix, text in texts.items():
        with replacing(out / f"{_NAME}.{suffix}") as temporary:
            temporary.write_text(text)
    save_csv(comparison, out / f"{_NAME}.csv")
    if not comparison.standings:
        return "there is nothing to draw: no system finished"
    try:
        with replacing(out / f"{_NAME}.png") as temporary:
            comparison_figure(comparison).savefig(temporary, format="png")
    except ResourceError as error:
        if error.code != "no_matplotlib":
            raise
        return str(error)
    return None


def save_csv(comparison: ComparedSystems, file: Path) -> None:
    """Write the table with a column for every metric."""
    write_table(to_table(columns(comparison)), file)


def save_latex(comparison: ComparedSystems, file: Path) -> None:
    """Write the table as LaTeX."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_text(latex(comparison), encoding="utf-8")


def table(comparison: ComparedSystems) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table for people."""
    cells = _cells(comparison)
    head = [*cells, "seconds", "engine", "settings"]
    rows = [
        [*(cell(one) for cell in cells.values()), f"{one.seconds:.1f}", one.engine, one.settings]
        for one in comparison.standings
    ]
    blank = [""] * (len(head) - 3)
    rows += [[f.system, "failed", *blank, f.message] for f in comparison.failures]
    return head, rows


def _cells(comparison: ComparedSystems) -> dict[str, Callable[[Standing], str]]:
    """Return the columns that all tables for people have, each as the text of a cell."""

    def difference(standing: Standing) -> str:
        versus = standing.versus
        return "" if versus is None else f"{versus.difference:+.4f}"

    def p_value(standing: Standing) -> str:
        p = None if standing.versus is None else standing.versus.sign_flip_p
        return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"

    def of_metric(name: str) -> Callable[[Standing], str]:
        return lambda standing: standing.mean_and_sd(name)

    return {
        "system": lambda standing: standing.system,
        comparison.metric: of_metric(comparison.metric),
        f"vs {comparison.against}": difference,
        "p" if len(comparison.conditions.seeds) > 1 else "p of these runs": p_value,
        **{name: of_metric(name) for name in comparison.further_metrics},
    }


def columns(comparison: ComparedSystems) -> dict[str, list[Any]]:
    """Return the table with a column for every metric, for CSV."""
    rows = []
    for one in comparison.standings:
        row: dict[str, Any] = {"system": one.system, "runs": len(one.runs)}
        for name, mean in one.means.items():
            row |= {name: mean, f"{name} sd": one.sds and one.sds[name]}
        versus = one.versus
        row |= {
            "low": one.low,
            "high": one.high,
            "against": comparison.against,
            "difference": versus and versus.difference,
            "p": versus and versus.sign_flip_p,
            "t p": versus and versus.t_p,
            "seconds": one.seconds,
            "engine": one.engine,
            "settings": one.settings,
            "note": "",
        }
        rows.append(row)
    rows += [{"system": f.system, "note": f.message} for f in comparison.failures]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def markdown(comparison: ComparedSystems) -> str:
    """Return the table and what its numbers mean, as Markdown."""
    head, rows = table(comparison)
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    kinds = [f"- {kind}@k: {said}" for kind, said in comparison.definitions.items()]
    said = f"{comparison.definition} {comparison.how_sure}"
    return "\n".join([*lines, "", said, "", *kinds, ""])


def comparison_figure(comparison: ComparedSystems) -> Figure:
    """Return a figure of each system's mean and runs, and of the differences to one system.

    Intervals are 95 % over users. Users differ from one another far more than systems do, so the
    intervals of two values can overlap where that of their paired difference is far from 0.
    """
    rows = comparison.standings
    figure = new_figure(width=10, height=1.6 + 0.45 * len(rows))
    values, differences = figure.subplots(1, 2, sharey=True)
    for place, row in enumerate(rows):
        runs = [run.metrics[comparison.metric] for run in row.runs]
        values.plot([row.low, row.high], [place, place], color=BLUE, linewidth=2, zorder=1)
        values.plot(row.means[comparison.metric], place, "D", color=BLUE, zorder=2)
        values.plot(runs, [place] * len(runs), "o", color=ORANGE, markersize=3, zorder=3)
        paired = row.versus
        if paired is not None:
            differences.plot([paired.low, paired.high], [place, place], color=BLUE, linewidth=2)
            differences.plot(paired.difference, place, "D", color=BLUE)
    values.set_yticks(range(len(rows)), [row.system for row in rows])
    values.set_ylim(len(rows) - 0.5, -0.5)  # the best on top
    values.set_title("value: mean, interval over users, runs (orange)", fontsize=9)
    values.set_xlabel(f"{comparison.metric} on test rows")
    differences.axvline(0, color=GREY, linestyle="--")
    differences.set_title("paired difference: mean, interval over users", fontsize=9)
    differences.set_xlabel(f"{comparison.metric} less that of {comparison.against}")
    for axes in (values, differences):
        axes.grid(axis="x", alpha=0.3)
    return figure


def latex(comparison: ComparedSystems) -> str:
    """Return a table for the package booktabs: the best of every metric in bold.

    It has what the printed table has: the main metric with its 95 % interval over users, the
    difference to the system that others are compared with, and the p of the paired test.
    """
    cells = _cells(comparison)
    best = {
        metric: best_of(comparison.standings, metric)
        for metric in (comparison.metric, *comparison.further_metrics)
    }
    rows = []
    for standing in comparison.standings:
        row = {name: escaped(cell(standing)) for name, cell in cells.items()}
        for metric, value in best.items():
            if value is not None and standing.means.get(metric) == value:
                mean, blank, spread = row[metric].partition(" ")
                row[metric] = f"\\textbf{{{mean}}}{blank}{spread}"
        system, mean, difference, *others = row.values()
        interval = f"[{standing.low:.4f}, {standing.high:.4f}]"
        difference = f"${difference}$" if difference else ""
        rows.append([system, mean, interval, difference, *others])
    system, metric, versus, p, *others = map(escaped, cells)
    head = [system, metric, "95\\,\\% interval", versus, f"$p${p.removeprefix('p')}", *others]
    rows += [[escaped(f.system), "failed", *[""] * (len(head) - 2)] for f in comparison.failures]
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escaped(f'{comparison.definition} {comparison.how_sure}')}}}",
        f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        "\\toprule",
        _line(head),
        "\\midrule",
        *map(_line, rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def best_of(standings: Sequence[Standing], metric: str) -> float | None:
    """Return the best mean of a metric; None where neither direction is better."""
    good = MEASURES[metric.partition("@")[0].partition(":")[0]].good
    means = [standing.means[metric] for standing in standings if metric in standing.means]
    if good == "neither" or len(means) < 2:
        return None
    return max(means) if good == "higher" else min(means)


def escaped(text: str) -> str:
    """Return a text with the special characters of LaTeX escaped."""
    return "".join(_SIGNS.get(letter) or _SPECIAL.get(letter, letter) for letter in text)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
