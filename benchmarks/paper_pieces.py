"""Measure pieces of ``sdgar paper`` on a machine that has only torch and NumPy, several at a time.

    python benchmarks/accuracy_grid.py pack DATA carry            # where polars is: Parquet → npz
    PYTHONPATH=src python benchmarks/paper_pieces.py carry OUT 12 table2 sensitivity trend
    PYTHONPATH=src python benchmarks/paper_pieces.py carry OUT 1 time items

The lines are those of the package: ``sdgar paper NAME --out OUT --data DATA`` finds them there,
measures what is missing, and writes the tables and figures. ``+system`` or ``-system`` among the
names measures only that system, or all others.
"""

from __future__ import annotations

import multiprocessing as mp
import sys
import time
from pathlib import Path

import torch

from sdgar.experiments import lines, paper
from sdgar.experiments.paper.pieces import Piece, measured_line


def pieces_of(name: str, data: Path) -> list[Piece]:
    return paper.EXPERIMENTS[name].pieces(paper.Setting(data=data))


def worker(data: Path, jobs: mp.Queue, results: mp.Queue) -> None:
    torch.set_num_threads(1)
    while (job := jobs.get()) is not None:
        name, number = job
        piece = pieces_of(name, data)[number]
        try:
            results.put((name, measured_line(piece, "auto", lambda phase, epoch: None)))
        except Exception as error:
            results.put((name, {"key": piece.key, "error": repr(error)}))


def main(data: Path, out: Path, processes: int, words: list[str]) -> None:
    only = {word[1:] for word in words if word.startswith("+")}
    without = {word[1:] for word in words if word.startswith("-")}
    todo = []
    for name in (word for word in words if word in paper.EXPERIMENTS):
        with lines.held(out / f"{name}.jsonl", mark="format", what="measurements") as file:
            kept = [line["key"] for line in lines.read(file, out)]
        for number, piece in enumerate(pieces_of(name, data)):
            system = piece.key["system"]
            if piece.key not in kept and system not in without and system in (only or {system}):
                todo.append((piece.seconds, name, number))
    todo.sort(reverse=True)  # the longest first, so that no process is left alone with one
    context = mp.get_context("spawn")
    jobs, results = context.Queue(), context.Queue()
    for job in [*((name, number) for _, name, number in todo), *[None] * processes]:
        jobs.put(job)
    team = [context.Process(target=worker, args=(data, jobs, results)) for _ in range(processes)]
    for process in team:
        process.start()
    start = time.perf_counter()
    for done in range(1, len(todo) + 1):
        name, line = results.get()
        at = f"{time.perf_counter() - start:6.1f} s, {done}/{len(todo)} {name}"
        if "error" in line:
            print(at, line, flush=True)
            continue
        with lines.held(out / f"{name}.jsonl", mark="format", what="measurements") as file:
            lines.append(file, out, line)
        values = {k: v for k, v in line["values"].items() if isinstance(v, float | int | str)}
        print(at, line["seconds"], line["key"], values, flush=True)
    for process in team:
        process.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
