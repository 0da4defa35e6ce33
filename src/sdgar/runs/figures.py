"""Pictures that are drawn from logged data alone; they need the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sdgar.errors import ResourceError
from sdgar.training.records import EpochRecord, Phase

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Okabe and Ito's colours stay apart for colour-blind readers.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"


LEAST_EVALUATIONS = 3
"""The least number of evaluations that make a curve."""


def draw_run(
    log: Sequence[tuple[Phase, EpochRecord]],
    path: Path,
    *,
    title: str,
    metric: str,
    rows: str = "validation",
) -> Path | None:
    """Draw the pass that chose the epoch, next to the log of a saved run; return the picture.

    Nothing is drawn if there were too few evaluations, matplotlib is not installed, or the disk
    refuses: the run is whole without its picture.
    """
    chosen = first_pass(log)
    if sum(record.metric is not None for record in chosen) < LEAST_EVALUATIONS:
        return None
    try:
        figure = training_figure(chosen, title=title, metric=metric, rows=rows)
        figure.savefig(path)
    except (ResourceError, OSError):
        return None
    return path


def first_pass(log: Sequence[tuple[Phase, EpochRecord]]) -> list[EpochRecord]:
    """Return the epochs with held-out rows, and the epochs that continue with all rows."""
    chosen = [record for phase, record in log if phase == "choose"]
    final = [record for phase, record in log if phase == "final"]
    goes_on = chosen and final and final[0].epoch == chosen[-1].epoch + 1
    return chosen + final if goes_on else chosen


def training_figure(
    log: Sequence[EpochRecord], *, title: str, metric: str, rows: str = "validation"
) -> Figure:
    """Return a figure with the metric, above the loss of every epoch; the best epoch is marked.

    Epochs after the last evaluation are trained on all rows. Each axis shows the range in which its
    line moves.
    """
    looks = [(r.epoch, r.metric) for r in log if r.metric is not None]
    chosen = max((r.epoch for r in log if r.best), default=None)
    figure = new_figure(height=5)
    above, below = figure.subplots(2, sharex=True, height_ratios=(3, 2))
    above.plot([e for e, _ in looks], [m for _, m in looks], "o-", color=BLUE, label=metric)
    below.plot([r.epoch for r in log], [r.loss for r in log], color=ORANGE)
    if chosen is not None:
        best = dict(looks)[chosen]
        for axes in (above, below):
            axes.axvline(chosen, color=GREEN, alpha=0.6)
        goes_on = chosen == looks[-1][0] < log[-1].epoch
        label = "all rows from here on: " if goes_on else f"chosen: epoch {chosen}, "
        above.plot(chosen, best, "D", color=GREEN, label=f"{label}{best:.4f}")
        above.legend(loc="best")
    above.set(title=title, ylabel=f"{metric} on {rows} rows")
    below.set(xlabel="epoch", ylabel="training loss", xlim=(0, log[-1].epoch + 1))
    for axes in (above, below):
        axes.margins(y=0.15)
        axes.grid(alpha=0.3)
    return figure


def new_figure(*, width: float = 7, height: float = 4) -> Figure:
    """Make an empty figure, or raise an error that says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ResourceError(
            'drawing needs matplotlib, which is not installed: pip install "sdgar[plot]".',
            code="no_matplotlib",
        ) from error
    return Figure(figsize=(width, height), layout="constrained", dpi=150)
