"""Measure pieces of ``sdgar paper`` on a machine that has only torch and NumPy, several at a time.

    python benchmarks/accuracy_grid.py pack DATA carry            # where polars is: Parquet → npz
    PYTHONPATH=src python benchmarks/paper_pieces.py carry OUT 12 table2 sensitivity trend
    PYTHONPATH=src python benchmarks/paper_pieces.py carry OUT 1 time items

The lines are those of the package: ``sdgar paper NAME --out OUT --data DATA`` finds them there,
measures what is missing, and writes the tables and figures. ``+system`` or ``-system`` among the
names measures only that system, or all others.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from sdgar.experiments import lines, paper
from sdgar.experiments.paper.pieces import Piece, measured_line
from team import answers


def pieces_of(name: str, data: Path) -> list[Piece]:
    return paper.EXPERIMENTS[name].pieces(paper.Setting(data=data))


def measured(data: Path, job: tuple[str, int]) -> dict[str, Any]:
    name, number = job
    return {"name": name} | measured_line(pieces_of(name, data)[number], "auto", _unheard)


def _unheard(phase: str, epoch: object) -> None:
    """Nobody looks on."""


def main(data: Path, out: Path, processes: int, words: list[str]) -> None:
    only = {word[1:] for word in words if word.startswith("+")}
    without = {word[1:] for word in words if word.startswith("-")}
    todo = []
    for name in (word for word in words if word in paper.EXPERIMENTS):
        with lines.locked(out / f"{name}.jsonl", mark="format", what="measurements") as file:
            kept = [line["key"] for line in lines.read(file, out)]
        for number, piece in enumerate(pieces_of(name, data)):
            system = piece.key["system"]
            if piece.key not in kept and system not in without and system in (only or {system}):
                todo.append((piece.seconds, name, number))
    todo.sort(reverse=True)  # the longest first, so that no process is left alone with one
    start, jobs = time.perf_counter(), [(name, number) for _, name, number in todo]
    for done, line in enumerate(answers(partial(measured, data), jobs, processes), start=1):
        at = f"{time.perf_counter() - start:6.1f} s, {done}/{len(jobs)}"
        if "error" in line:
            print(at, line, flush=True)
            continue
        name = line.pop("name")
        with lines.locked(out / f"{name}.jsonl", mark="format", what="measurements") as file:
            lines.append(file, out, line)
        values = {k: v for k, v in line["values"].items() if isinstance(v, float | int)}
        print(at, name, line["seconds"], line["key"], values, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
