"""Pictures, drawn from logged data alone. Needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdgar.errors import ResourceError
from sdgar.training.fit import EpochRecord

# Okabe and Ito's colours stay apart for colour-blind readers.
BLUE, ORANGE = "#0072B2", "#D55E00"


def draw_training(log: Sequence[EpochRecord], path: Path, *, title: str, metric: str) -> Path:
    """Loss of every epoch and the metric of every look, over epochs, as a PNG."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ResourceError(
            'drawing needs matplotlib, which is not installed: pip install "sdgar[plot]".',
            code="no_matplotlib",
        ) from error
    looks = [(r.epoch, r.metric) for r in log if r.metric is not None]
    figure = Figure(figsize=(7, 4), layout="constrained", dpi=150)
    left = figure.subplots()
    left.set(title=title, xlabel="epoch", xlim=(0, None))
    left.plot([e for e, _ in looks], [m for _, m in looks], "o-", color=BLUE, label=metric)
    left.set_ylabel(f"{metric} on validation rows", color=BLUE)
    left.set_ylim(bottom=0)
    right = left.twinx()
    right.plot([r.epoch for r in log], [r.loss for r in log], color=ORANGE, label="loss")
    right.set_ylabel("training loss", color=ORANGE)
    right.set_ylim(bottom=0)
    handles = left.get_legend_handles_labels(), right.get_legend_handles_labels()
    left.legend(handles[0][0] + handles[1][0], handles[0][1] + handles[1][1], loc="center right")
    left.grid(alpha=0.3)
    figure.savefig(path)
    return path
