"""Networks as discriminators: learned negatives beside uniform ones, at equal draws.

Needs only torch and NumPy to run, so that it runs on a bare GPU machine:

    python benchmarks/networks.py pack DATA carry        # npz of the sets with times (here: polars)
    PYTHONPATH=src python benchmarks/networks.py run JOBS.jsonl OUT.jsonl PROCESSES
    python benchmarks/networks.py show OUT.jsonl         # means over seeds

A line of JOBS is {"data": "carry/beauty.npz", "seed": 0, "look": "valid" or "test", "settings": …},
with the fields of ``Composed`` as settings; a line of OUT is a job too, so what was run can be run
again. Sets with times are split by leave-last-out: the last
event of everyone is the test row, the one before it the validation row. Those without times come
split, and a tenth of their training rows are the validation rows. "valid" chooses the epoch on them
and reports what it chose by; "test" trains on both parts for all ``epochs`` and reads test rows.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.systems.composed import Composed
from sdgar.training.fit import EpochRecord
from team import answers

SETS = {
    "ml-100k": ("movielens-100k", "interactions"),
    "beauty": ("amazon-beauty", "interactions"),
    "videogames": ("amazon-videogames", "interactions"),
}


def pack(shared: Path, out: Path) -> None:
    import polars as pl

    for name, (folder, file) in SETS.items():
        frame = pl.read_parquet(shared / folder / f"{file}.parquet")
        order = "timestamp" if "timestamp" in frame.columns else "position"
        arrays = {"user": frame["user"], "item": frame["item"], "time": frame[order]}
        np.savez_compressed(out / f"{name}.npz", **arrays)


def load(path: Path) -> tuple[Interactions, Interactions, Interactions]:
    """Rows to train, to choose the epoch by, and to test."""
    file = np.load(path)
    if "time" in file:
        everything = Interactions.from_arrays(file["user"], file["item"], time=file["time"])
        before, test = splits.leave_last_out(everything)
        train, valid = splits.leave_last_out(before)
        return train, valid, test
    before, test = (
        Interactions.from_arrays(file[f"{part}_user"], file[f"{part}_item"])
        for part in ("train", "test")
    )
    train, valid = splits.validation(before, seed=0)
    return train, valid, test


def one(job: dict[str, Any]) -> dict[str, Any]:
    train, valid, test = load(Path(job["data"]))
    looks: list[tuple[str, int, float | None, float]] = []

    def hear(phase: str, epoch: EpochRecord) -> None:
        looks.append((phase, epoch.epoch, epoch.metric, epoch.train_seconds + epoch.refit_seconds))

    final = job["look"] == "test"
    model = Composed(seed=job["seed"], early_stopping=not final, **job["settings"])
    started = time.perf_counter()
    if final:
        model.fit(train.merge(valid), on_epoch=hear)
    else:
        model.fit(train, valid, on_epoch=hear)
    trained = model.trained_
    result = {
        **job,
        "best_epoch": trained.best_epoch,
        "valid": trained.valid,
        "health": trained.generator,
        "curve": [(epoch, round(m, 5)) for _, epoch, m, _ in looks if m],
        "seconds_an_epoch": round(float(np.median([s for *_, s in looks])), 3),
        "seconds": round(time.perf_counter() - started, 1),
    }
    if final:
        result["test"] = model.evaluate(test, ks=(10, 20, 50)).means()
        result["users"] = len(HeldOut.of(test, model.recommender_).users_T)
    return result


def run(todo: list[dict[str, Any]], out: Path, processes: int) -> None:
    with out.open("a") as file:
        for result in answers(one, todo, processes):
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(json.dumps({k: v for k, v in result.items() if k != "curve"}), flush=True)


def show(lines: list[dict[str, Any]]) -> None:
    names = ("discriminator", "objective", "sampler", "n_negatives")
    print("| data | " + " | ".join(names) + " | NDCG@10 | recall@20 | NDCG@20 | seeds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for data in dict.fromkeys(line["data"] for line in lines):
        mine = [line for line in lines if line["data"] == data]
        parts = dict.fromkeys(tuple(line["settings"][n] for n in names) for line in mine)
        for part in parts:
            test = [m["test"] for m in mine if tuple(m["settings"][n] for n in names) == part]
            cells = [
                f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"
                for k in ("ndcg@10", "recall@20", "ndcg@20")
                for values in [[t[k] for t in test]]
            ]
            print(f"| {' | '.join([Path(data).stem, *map(str, part), *cells])} | {len(test)} |")


def _lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "pack":
        pack(Path(words[0]), Path(words[1]))
    elif command == "show":
        show(_lines(words[0]))
    else:
        fields = ("data", "seed", "look", "settings")
        jobs = [{name: line[name] for name in fields} for line in _lines(words[0])]
        run(jobs, Path(words[1]), int(words[2]))
