"""The table of a comparison as LaTeX, for a paper."""

from __future__ import annotations

from collections.abc import Sequence

from sdgar.evaluation.measures import MEASURES
from sdgar.lab.comparison import Comparison, Standing, mean_and_sd, p_in_words

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip
_SIGNS = {
    "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "Σ": r"$\Sigma$", "·": r"$\cdot$",
    "–": "--", "<": "$<$", ">": "$>$", "|": "$|$",
}  # fmt: skip


def latex(comparison: Comparison) -> str:
    """Return a table for the package booktabs: the best of every metric in bold.

    It has what the printed table has: the main metric with its 95 % interval over users, the
    difference to the system that others are compared with, and the p of the paired test.
    """
    metrics = (comparison.metric, *comparison.beside)
    p = "$p$" if len(comparison.seeds) > 1 else "$p$ of these runs"
    head = [
        "system", escaped(comparison.metric), "95\\,\\% interval",
        f"vs {escaped(str(comparison.against))}", p, *map(escaped, comparison.beside),
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
    """Return a text as LaTeX takes it."""
    return "".join(_SIGNS.get(letter) or _SPECIAL.get(letter, letter) for letter in text)


def _row(standing: Standing, comparison: Comparison, best: dict[str, float | None]) -> list[str]:
    versus = standing.versus
    return [
        escaped(standing.system),
        _cell(standing, comparison.metric, best),
        f"[{standing.low:.4f}, {standing.high:.4f}]",
        "" if versus is None else f"${versus.difference:+.4f}$",
        "" if versus is None else escaped(p_in_words(versus.sign_flip_p)),
        *(_cell(standing, metric, best) for metric in comparison.beside),
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
