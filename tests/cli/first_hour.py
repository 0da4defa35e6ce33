"""The first hour with custom files: every command as it is typed, and what it prints.

    python -m tests.cli.first_hour docs/first-hour.md     # writes the page

The files are synthetic, small, and of common kinds: events with times, play counts,
stars, true-or-false recommendations, tables of names. A test runs the commands again and compares
what they print with the page, with every number masked: numbers differ from machine to machine.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import polars as pl

from sdgar.cli import main
from sdgar.data.synthetic import Shape, generate

PAGE = Path(__file__).parents[2] / "docs" / "first-hour.md"
WIDTH = 80
SHAPE = Shape(users=250, items=200, interactions=5_000, concentration=0.25, head=0.05, ids="text")

HOUR: tuple[tuple[str, str], ...] = (
    ("What is there on this machine?", "sdgar doctor"),
    ("Everything once, on synthetic data.", "sdgar demo --out runs/demo"),
    ("What is in a file?", "sdgar data stats events.csv"),
    ("A file of events with times.", "sdgar train events.csv --out runs/mine"),
    ("What was saved?", "sdgar info runs/mine"),
    ("For one user, with titles.",
     "sdgar recommend runs/mine --user user-0017 -k 3 --names items.csv"),
    ("Why these?", "sdgar explain runs/mine --user user-0017 -k 2 --names items.csv"),
    ("For a new user.", "sdgar recommend runs/mine --history item-0004,item-0009 -k 3"),
    ("For an unknown user, together with known ones.",
     "sdgar recommend runs/mine --user user-0017 --user stranger -k 2"),
    ("For everybody, into a file.", "sdgar recommend runs/mine --all -k 5 -o lists.parquet"),
    ("What is like an item?", "sdgar similar runs/mine --item item-0004 -k 3"),
    ("A file with play counts.", "sdgar train plays.tsv --out runs/plays"),
    ("The counts, on request.", "sdgar train plays.tsv --weight-column plays --out runs/weighted"),
    ("A file with stars.", "sdgar train stars.jsonl --out runs/stars"),
    ("A table with true-or-false recommendations.",
     "sdgar train reviews.parquet --system ease --out runs/reviews"),
    ("A file without a header.", "sdgar train ratings.dat --out runs/dat"),
    ("Its columns, named.",
     "sdgar train ratings.dat --columns user,item,rating,time --system ease --out runs/dat"),
    ("What systems are there?", "sdgar systems"),
    ("One of them.", "sdgar systems ease"),
    ("Several systems side by side.",
     "sdgar compare events.csv --systems popular,ease,sdsoftmax --seeds 1 --out runs/cmp"),
    ("A mistake.", "sdgar train event.csv --out runs/typo"),
    ("Another.", "sdgar recommend runs/mine --usr user-0017"),
)  # fmt: skip
"""A question, and the command that answers it."""


def make_files(folder: Path) -> None:
    """Write the files that the commands read."""
    data = generate(SHAPE, seed=1)
    users, items = data.users.at(data.users_E).tolist(), data.items.at(data.items_E).tolist()
    rng = np.random.default_rng(1)
    seconds = (data.time_E // 1_000_000).tolist()
    pl.DataFrame({"user_id": users, "item_id": items, "timestamp": seconds}).write_csv(
        folder / "events.csv"
    )
    names = data.items.values.tolist()
    pl.DataFrame({"item_id": names, "title": [f"The {n.title()}" for n in names]}).write_csv(
        folder / "items.csv"
    )
    plays = np.ceil(rng.lognormal(3, 2, len(users))).astype(int)
    pl.DataFrame({"user": users, "artist": items, "plays": plays}).write_csv(
        folder / "plays.tsv", separator="\t"
    )
    stars = rng.choice([1, 2, 3, 4, 5], len(users), p=[0.05, 0.1, 0.2, 0.35, 0.3])
    pl.DataFrame({"reviewer": users, "product": items, "stars": stars}).write_ndjson(
        folder / "stars.jsonl"
    )
    pl.DataFrame({"user": users, "game": items, "recommended": stars > 2}).write_parquet(
        folder / "reviews.parquet"
    )
    rows = zip(data.users_E, data.items_E, stars, seconds, strict=True)
    (folder / "ratings.dat").write_text("".join("::".join(map(str, row)) + "\n" for row in rows))


def typed(command: str) -> str:
    """What a command prints on a screen of 80 columns."""
    said = io.StringIO()
    before = sys.argv, os.environ.get("COLUMNS")
    sys.argv, os.environ["COLUMNS"] = shlex.split(command), str(WIDTH)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main.run()
            except SystemExit as stop:
                if stop.code:
                    said.write(f"(exit code {stop.code})\n")
    finally:
        sys.argv = before[0]
        os.environ.pop("COLUMNS")
        if before[1] is not None:
            os.environ["COLUMNS"] = before[1]
    return said.getvalue()


def hour(place: Path) -> Iterator[tuple[str, str, str]]:
    """(the question, the command, what it prints), one after the other in an empty folder."""
    here = Path.cwd()
    os.chdir(place)
    try:
        make_files(place)
        for question, command in HOUR:
            yield question, command, typed(command).replace(f"{place}/", "")
    finally:
        os.chdir(here)


def page() -> str:
    """The transcript as Markdown."""
    lines = [
        "# The first hour",
        "",
        "What the commands print, on a screen of 80 columns. The files are small and synthetic, so",
        "the numbers mean little. `python -m tests.cli.first_hour docs/first-hour.md` wrote this",
        "page, and a test compares it with what the commands print now.",
    ]
    with tempfile.TemporaryDirectory() as place:
        for question, command, said in hour(Path(place)):
            shown = [line for line in said.rstrip().splitlines() if not slow_only(line)]
            lines += ["", f"## {question}", "", "```", f"$ {command}", *shown, "```"]
    return "\n".join(lines) + "\n"


def commands(text: str) -> dict[str, str]:
    """What each command prints, by a page."""
    blocks = re.findall(r"^```\n\$ (.*?)\n(.*?)```$", text, flags=re.DOTALL | re.MULTILINE)
    return dict(blocks)


def slow_only(line: str) -> bool:
    """Whether only a slow machine prints a line: it says between two evaluations how far it is."""
    return re.search(r"epoch \d+ of (at most )?\d+, loss [\d.]+", line) is not None


def masked(command: str, said: str) -> list[str]:
    """Lines without what differs between machines: numbers, how many epochs, who is ahead."""
    if command == "sdgar doctor":
        return sorted({line.split(" ")[0] for line in said.splitlines()} - {""})
    lines = []
    for line in said.splitlines():
        plain = re.sub(r"[-<] ?(?=[0-9])", "", line).replace(" best ", " ")
        plain = re.sub(r"[0-9]+([.,:][0-9]+)*(e[-+][0-9]+)?", "#", plain)
        plain = " ".join(plain.replace("─", " ").split())
        goes_on = "training on all" in plain or slow_only(line)
        may_be = ("next sdgar train events", "note most popular is ahead here")
        if plain and not goes_on and not plain.startswith(may_be):
            lines.append(plain)
    lines = [line for line, _ in groupby(lines)]
    return sorted(lines) if command.startswith("sdgar compare") else lines


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
