"""Table 1: the data sets, beside what the paper says of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sdgar.lab.paper import sheets
from sdgar.lab.paper.measurements import Measurement, Row, Setting
from sdgar.lab.paper.sources import PAPER_SIZES, TITLES, is_real, source
from sdgar.training.trained import OnPhase

NAME = "table1"
TITLE = "Table 1: the data sets"


def measurements(setting: Setting) -> list[Measurement]:
    """Return a measurement for each data set; made-up ones have the paper's size, quick or not."""

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


def write(rows: Sequence[Row], out: Path, setting: Setting) -> None:
    """Write the table as Markdown, JSON and CSV."""
    sheets.write_rows(rows, out, NAME)
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
    sheets.write_markdown(
        out,
        NAME,
        [
            f"# {TITLE}",
            sheets.markdown_table(head, cells),
            "Items are those that occur; the paper's counts of CiteULike and MovieLens are of "
            "columns, some of which are empty. Made-up sets have the paper's sizes and a like "
            "concentration on popular items, and nothing else of the real ones.",
            sheets.made_on(rows),
        ],
    )
