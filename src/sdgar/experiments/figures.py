"""Pictures, drawn from logged data alone. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sdgar.errors import ResourceError
from sdgar.training.fit import EpochRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sdgar.experiments.standings import Comparison

# Okabe and Ito's colours stay apart for colour-blind readers.
BLUE, ORANGE = "#0072B2", "#D55E00"


def draw_training(log: Sequence[EpochRecord], path: Path, *, title: str, metric: str) -> Path:
    """Write loss and metric over epochs as a PNG."""
    training_figure(log, title=title, metric=metric).savefig(path)
    return path


def training_figure(log: Sequence[EpochRecord], *, title: str, metric: str) -> Figure:
    """Loss of every epoch and the metric of every look, over epochs."""
    looks = [(r.epoch, r.metric) for r in log if r.metric is not None]
    figure = new_figure()
    left = figure.subplots()
    left.plot([e for e, _ in looks], [m for _, m in looks], "o-", color=BLUE, label=metric)
    left.set(title=title, xlabel="epoch")
    left.set_ylabel(f"{metric} on validation rows", color=BLUE)
    right = left.twinx()
    right.plot([r.epoch for r in log], [r.loss for r in log], color=ORANGE, label="loss")
    right.set_ylabel("training loss", color=ORANGE)
    # Limits last: set before the lines are drawn, they would stay as they were without them.
    left.set_ylim(bottom=0)
    right.set(xlim=(0, log[-1].epoch + 1), ylim=(0, None))
    lines = [*left.get_lines(), *right.get_lines()]
    left.legend(lines, [str(line.get_label()) for line in lines], loc="center right")
    left.grid(alpha=0.3)
    return figure


def draw_comparison(comparison: Comparison, path: Path) -> Path:
    """Write the systems of a comparison side by side as a PNG."""
    comparison_figure(comparison).savefig(path, format="png")
    return path


def comparison_figure(comparison: Comparison) -> Figure:
    """Each system's mean over seeds, its interval over users, and every seed as a small dot."""
    rows = comparison.standings
    figure = new_figure(height=1.2 + 0.45 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        seeds = [run.metrics[comparison.metric] for run in row.runs]
        axes.plot([row.low, row.high], [place, place], color=BLUE, linewidth=2, zorder=1)
        axes.plot(row.means[comparison.metric], place, "D", color=BLUE, zorder=2)
        axes.plot(seeds, [place] * len(seeds), "o", color=ORANGE, markersize=3, zorder=3)
    axes.set_yticks(range(len(rows)), [row.system for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)  # the best on top
    axes.set_xlabel(
        f"{comparison.metric} on test rows: mean, 95 % interval over users (blue), seeds (orange)"
    )
    axes.grid(axis="x", alpha=0.3)
    return figure


def new_figure(*, width: float = 7, height: float = 4) -> Figure:
    """An empty figure, or an error that says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ResourceError(
            'drawing needs matplotlib, which is not installed: pip install "sdgar[plot]".',
            code="no_matplotlib",
        ) from error
    return Figure(figsize=(width, height), layout="constrained", dpi=150)
