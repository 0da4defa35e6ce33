"""The files of a comparison: JSON, CSV, Markdown, LaTeX and a figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sdgar.data.tables import to_table, write_table
from sdgar.errors import ResourceError
from sdgar.evaluation.measures import MEASURES
from sdgar.lab.comparison import Comparison, Standing, mean_and_sd, p_in_words
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


def save(comparison: Comparison, out: Path) -> str | None:
    """Write the table as JSON, CSV and Markdown and draw it; return why it could not be drawn."""
    texts = {
        "json": json.dumps(comparison.as_dict(), indent=2, allow_nan=False) + "\n",
        "md": comparison.markdown(),
    }
    for suffix, text in texts.items():
        with replacing(out / f"{_NAME}.{suffix}") as temporary:
            temporary.write_text(text)
    save_csv(comparison, out / f"{_NAME}.csv")
    if not comparison.standings:
        return "there is nothing to draw: no system finished"
    try:
        with replacing(out / f"{_NAME}.png") as temporary:
            draw_comparison(comparison, temporary)
    except ResourceError as error:
        if error.code != "no_matplotlib":
            raise
        return str(error)
    return None


def save_csv(comparison: Comparison, file: Path) -> None:
    """Write the table with a column for every metric."""
    write_table(to_table(comparison.columns()), file)


def save_latex(comparison: Comparison, file: Path) -> None:
    """Write the table as LaTeX."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_text(latex(comparison), encoding="utf-8")


def draw_comparison(comparison: Comparison, path: Path) -> Path:
    """Write the systems of a comparison side by side as a PNG."""
    comparison_figure(comparison).savefig(path, format="png")
    return path


def comparison_figure(comparison: Comparison) -> Figure:
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


def latex(comparison: Comparison) -> str:
    """Return a table for the package booktabs: the best of every metric in bold.

    It has what the printed table has: the main metric with its 95 % interval over users, the
    difference to the system that others are compared with, and the p of the paired test.
    """
    metrics = (comparison.metric, *comparison.further_metrics)
    p = "$p$" if len(comparison.seeds) > 1 else "$p$ of these runs"
    head = [
        "system", escaped(comparison.metric), "95\\,\\% interval",
        f"vs {escaped(str(comparison.against))}", p, *map(escaped, comparison.further_metrics),
    ]  # fmt: skip
    best = {metric: best_of(comparison.standings, metric) for metric in metrics}
    rows = [_row(standing, comparison, best) for standing in comparison.standings]
    rows += [
        [escaped(failure.system), "failed", *[""] * (len(head) - 2)]
        for failure in comparison.failures
    ]
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


def _row(standing: Standing, comparison: Comparison, best: dict[str, float | None]) -> list[str]:
    versus = standing.versus
    return [
        escaped(standing.system),
        _cell(standing, comparison.metric, best),
        f"[{standing.low:.4f}, {standing.high:.4f}]",
        "" if versus is None else f"${versus.difference:+.4f}$",
        "" if versus is None else escaped(p_in_words(versus.sign_flip_p)),
        *(_cell(standing, metric, best) for metric in comparison.further_metrics),
    ]


def _cell(standing: Standing, metric: str, best: dict[str, float | None]) -> str:
    """Return a mean, in bold if none is better, and its standard deviation behind it."""
    if metric not in standing.means:
        return ""
    mean, blank, spread = mean_and_sd(standing, metric).partition(" ")
    shown = f"\\textbf{{{mean}}}" if standing.means[metric] == best[metric] else mean
    return shown + blank + escaped(spread)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
