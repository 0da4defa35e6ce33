"""What an experiment writes: rows as JSON, and from those a table and a picture."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from sdgar.lab.paper.measurements import Row
from sdgar.runs.figures import new_figure
from sdgar.storage.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colours of Okabe and Ito, which colour-blind readers can distinguish."""
MARKS = "os^Dv<>"


@dataclass(frozen=True, slots=True)
class Sheet:
    """The contents of the files of one experiment: OUT/NAME.json, .md and .png."""

    parts: Sequence[str]
    """The paragraphs and tables in Markdown."""
    figure: Figure | None = None
    """The picture, if there is one."""
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """The rows by what follows NAME in the names of their files; by default all measurements."""
    of: str = ""
    """What follows the title."""

    def write(self, out: Path, name: str, title: str, measured: Sequence[Row]) -> None:
        """Write all files; the Markdown says on what machines the rows were measured."""
        for suffix, rows in ({"": measured} | dict(self.rows)).items():
            with replacing(out / f"{name}{suffix}.json") as temporary:
                temporary.write_text(json.dumps(list(rows), indent=1, allow_nan=False) + "\n")
        with replacing(out / f"{name}.md") as temporary:
            parts = [f"# {title}{self.of}", *self.parts, made_on(measured)]
            temporary.write_text("\n\n".join(parts) + "\n")
        if self.figure is not None:
            with replacing(out / f"{name}.png") as temporary:
                self.figure.savefig(temporary, format="png")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table with the cells as they are."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def mean_and_spread(values: Sequence[float]) -> str:
    """Return mean ± standard deviation, if there are several; a dash if there are none."""
    if not values:
        return "–"
    spread = f" ± {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{mean(values):.4f}{spread}"


def panels(
    n: int, *, rows: int = 1, height: float = 3.6, share_y: bool = False
) -> tuple[Figure, list[Any]]:
    """Return a figure with rows of n axes side by side."""
    figure = new_figure(width=max(6.5, 3.7 * n), height=height * rows)
    axes = figure.subplots(rows, n, squeeze=False, sharey=share_y)
    for one in axes.flat:
        one.grid(alpha=0.25)
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def legend_below(figure: Figure, marks: Sequence[tuple[str, str, str, str]]) -> None:
    """Draw one legend for all panels; each entry is (mark, colour, full or none, text)."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker=mark, color=colour, linestyle="", label=text,
               markerfacecolor=colour if fill == "full" else "none", markersize=7)
        for mark, colour, fill, text in marks
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def by_device(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each machine."""
    found = defaultdict[str, list[Row]](list)
    for row in rows:
        device, threads = row["made_on"]["device"], row["made_on"]["threads"]
        is_cpu = device.endswith("CPU")
        found[f"{threads} CPU cores" if is_cpu else device.removeprefix("NVIDIA ")].append(row)
    return found


def made_on(rows: Sequence[Row]) -> str:
    """Return a sentence with the machines that the rows come from."""
    machines = dict.fromkeys(
        f"{m['device']}, {m['threads']} threads, torch {m['torch']}, sdgar {m['sdgar']}"
        for m in (row["made_on"] for row in rows)
    )
    return "Made on: " + "; ".join(machines) + "."
