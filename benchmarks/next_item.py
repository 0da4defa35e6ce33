"""What comes next, by a strict protocol: accuracy and seconds of systems on ordered data sets.

    python benchmarks/next_item.py [--sets s3rec-beauty …] [--systems transitions …] [--seeds 0 …]
                                   [--packed DIR] [--device cuda] [--json FILE]

The last two events of every user with at least three are held out. Models learn from all events
before them, everything is chosen on the second last, and the last is ranked once, with the second
last in its history: NDCG@10 and HR@10 over the whole catalogue, items of the history hidden. With
--refit the chosen model is learned again with the second last events. Seconds are from the rows in
memory to the last score. ``pack`` as the first word writes the rows as arrays for --packed, for a
machine that reads no Parquet.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import sdgar
from common import SHARED, device_name, machine, options_of, write_report
from sdgar.systems.names import SYSTEMS

SETS = ("s3rec-beauty", "s3rec-sports", "movielens-1m-ordered")


def rows_of(name: str, packed: Path | None, data: Path) -> dict[str, Any]:
    """Return users, items and positions of the rows of a set."""
    if packed is not None:
        with np.load(packed / f"{name}.npz") as file:
            return {column: file[column] for column in ("user", "item", "position")}
    import polars as pl

    frame = pl.read_parquet(data / name / "interactions.parquet")
    return {column: frame[column].to_numpy() for column in ("user", "item", "position")}


def circle() -> dict[str, Any]:
    """Return a few made-up walks along a circle of items."""
    users, steps = np.repeat(np.arange(60), 7), np.tile(np.arange(7), 60)
    return {"user": users, "item": (users * 7 + steps) % 25, "position": steps}


def parts(rows: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return training rows, second last rows, both together, and last rows."""
    order = np.lexsort((rows["position"], rows["user"]))
    user, item, place = (rows[c][order] for c in ("user", "item", "position"))
    _, inverse, count = np.unique(user, return_inverse=True, return_counts=True)
    back = np.cumsum(count)[inverse] - 1 - np.arange(len(user))
    long = count[inverse] >= 3

    def some(keep: Any) -> Any:
        return sdgar.Interactions.from_arrays(user[keep], item[keep], time=place[keep])

    last, second = (back == 0) & long, (back == 1) & long
    return some(~last & ~second), some(second), some(~last), some(last)


def measured(rows: dict[str, Any], system: str, seed: int, device: str, *, refit: bool) -> Any:
    """Train one model and return its scores and seconds."""
    train, valid, both, test = parts(rows)
    kind = SYSTEMS[system]
    estimator = kind()
    known = estimator.get_params()
    estimator.set_params(
        **{k: v for k, v in {"seed": seed, "device": device}.items() if k in known}
    )
    start = time.perf_counter()
    model = estimator.fit(train, valid, refit=refit, verbose=False).recommender_
    trained = time.perf_counter() - start
    chosen = {} if refit else model.evaluate(valid, ks=(10,)).means()
    folded = model if refit else model.fold_in(both, skip_unknown=True)
    means = folded.evaluate(test, ks=(10,)).means()
    return {
        "system": system, "seed": seed, "refit": refit,
        "valid ndcg@10": chosen.get("ndcg@10"), "ndcg@10": means["ndcg@10"],
        "hit@10": means["hit@10"], "seconds": time.perf_counter() - start,
        "training seconds": trained, "chosen": model.about.get("chosen"),
        "memory": model.about.get("memory"), "best epoch": model.about.get("best_epoch"),
    }  # fmt: skip


def pack(folder: Path) -> None:
    """Write the rows of every set as compressed arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*SETS, "amazon-beauty", "amazon-videogames"):
        np.savez_compressed(folder / f"{name}.npz", **rows_of(name, None, SHARED))


def main() -> None:
    """Measure, print and write."""
    if sys.argv[1:2] == ["pack"]:
        pack(Path(sys.argv[2]))
        return
    parser = options_of(
        __doc__,
        sets={"nargs": "+", "default": list(SETS)},
        systems={"nargs": "+", "default": ["transitions", "next-item"]},
        seeds={"nargs": "+", "type": int, "default": [0]},
        device={"default": "auto"},
        packed={"type": Path},
        refit={"action": "store_true"},
    )
    options = parser.parse_args()
    found = []
    for name in ["circle"] if options.quick else options.sets:
        rows = circle() if options.quick else rows_of(name, options.packed, options.data)
        for system in ["transitions"] if options.quick else options.systems:
            seeds = options.seeds if system != "transitions" else options.seeds[:1]
            for seed in seeds:
                one = measured(rows, system, seed, options.device, refit=options.refit)
                found.append({"set": name, **one})
                print(
                    *(
                        f"{k} {v:.4f}" if type(v) is float else f"{k} {v}"
                        for k, v in found[-1].items()
                    ),
                    sep=" · ",
                    flush=True,
                )
    where = {**machine(), "device": device_name()}
    write_report(options.json, {**where, "results": found})


if __name__ == "__main__":
    main()
