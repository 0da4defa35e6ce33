"""Epochs of the fused CPU engine and the eager engine, for systems of another form than SD-GAR.

    python benchmarks/beside_eager.py cml [--json FILE] [--data DIR] [--rounds 3] [--threads 2]
    python benchmarks/beside_eager.py fields [--json FILE] [--data DIR] [--rounds 3] [--threads 2]

Both engines take turns, one epoch a round, and a ratio is that of their medians. On cores that
other programs keep busy ask for one thread: threads of torch wait for each other there, which would
be counted for the fused engine.

    cml      CML on CiteULike
    fields   systems whose contexts have two fields, user and part of the day, on MovieLens-100K
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch

from common import (
    THREADS,
    epochs,
    from_parquet,
    machine,
    make,
    options_of,
    take_turns,
    write_report,
)
from sdgar.data.contexts import DERIVED
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate
from sdgar.systems.bpr import BPR
from sdgar.systems.hinges import CML
from sdgar.systems.learner import Learner
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR

SMALL = Shape(users=100, items=60, interactions=1_000, concentration=0.3)
ENGINES = ("fused-cpu", "eager")
RECIPES: dict[str, dict[str, Learner]] = {
    "cml": {"CML": CML()},
    "fields": {"BPR": BPR(), "SD-GAR": SDGAR()},
}


def data_of(part: str, folder: Path, *, quick: bool) -> tuple[str, Interactions]:
    """Return (source, training rows); synthetic rows with ``quick``."""
    if quick:
        rows = generate(SMALL, seed=0)
        if part == "cml":
            return "synthetic", rows
        fields = {"user": rows.users_E, "half": rows.items_E % 2}
        return "synthetic", Interactions.from_contexts(fields, rows.items_E)
    if part == "cml":
        return "citeulike-t", from_parquet(folder / "citeulike-t" / "train.parquet")
    import polars as pl

    rated = pl.read_parquet(folder / "movielens-100k" / "interactions.parquet")
    micros_E = rated["timestamp"].cast(pl.Int64).to_numpy() * 1_000_000
    fields = {"user": rated["user"].to_numpy(), "daypart": DERIVED["daypart"](micros_E)}
    return "movielens-100k", Interactions.from_contexts(fields, rated["item"].to_numpy())


def measured(data: Interactions, recipes: dict[str, Learner], rounds: int) -> list[dict[str, Any]]:
    """Make engines take turns with each recipe; the first epoch of an engine is not counted."""
    rows = []
    for name, recipe in recipes.items():
        runs = {engine: epochs(make(engine, recipe, data)) for engine in ENGINES}
        seconds = take_turns(runs, rounds)
        fused, eager = (statistics.median(seconds[engine]) for engine in ENGINES)
        rows.append(
            {
                "name": name,
                "settings": recipe_of(recipe).settings,
                "fused_seconds": fused,
                "eager_seconds": eager,
                "fused_over_eager": eager / fused,
                "seconds": seconds,
            }
        )
        print(f"{name:20}{fused:10.3f} s{eager:10.3f} s   ratio {eager / fused:.1f}", flush=True)
    return rows


def main() -> None:
    """Measure one part, print and write."""
    parser = options_of(
        __doc__,
        rounds={"type": int, "default": 3, "help": "turns of each"},
        threads={"type": int, "default": THREADS, "help": "threads of both engines"},
    )
    parser.add_argument("part", choices=RECIPES)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    recipes, rounds = RECIPES[options.part], options.rounds
    if options.quick:
        recipes, rounds = dict(list(recipes.items())[:1]), 1
    source, data = data_of(options.part, options.data, quick=options.quick)
    report = {
        **machine(),
        "threads": options.threads,
        "source": source,
        "positives": len(data),
        "rounds": rounds,
        "rows": measured(data, recipes, rounds),
    }
    write_report(options.json, report)


if __name__ == "__main__":
    main()
