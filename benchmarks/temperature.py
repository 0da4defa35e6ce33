"""The best temperature of SD-Softmax on data of many sizes, from which its default follows.

    python benchmarks/accuracy_grid.py pack DATA carry            # Parquet → npz
    python benchmarks/temperature.py pack DATA carry              # four more sets
    PYTHONPATH=src COMMIT=… python benchmarks/temperature.py run carry OUT.jsonl PROCESSES
    python benchmarks/temperature.py show docs/defaults.md        # fills in the page's table

Users are drawn at random until they have so many rows; a fifth of each user's rows is the test, and
a tenth of the rest is for validation, which chooses the epoch and by which temperatures are
compared. Likings are ratings of 4 of 5 and above (MovieLens-100K), or of 7 of 10 (Anime).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

REPORT = Path(__file__).parent / "reports" / "defaults" / "temperature.jsonl"
MARKS = "<!-- temperature -->", "<!-- /temperature -->"
LEAST_LIKED = {"lastfm-2k": None, "steam-200k": None, "movielens-100k": 4, "anime-5k": 7}
NAMES = {"lastfm-2k": "lastfm", "steam-200k": "steam", "movielens-100k": "ml100k",
         "anime-5k": "anime"}  # fmt: skip
SETS = ("demo", "lastfm", "steam", "ml100k", "anime", "citeulike", "gowalla", "douban", "kgat")
SIZES = (2_000, 6_000, 20_000, 60_000, None)
"""Rows of the samples; None takes all."""
FEW, MANY = (0.12, 0.18, 0.25, 0.35, 0.5, 0.8), (0.10, 0.12, 0.14, 0.16, 0.18, 0.21)
"""Temperatures for samples, and for whole sets."""


def pack(data: Path, out: Path) -> None:
    """The (user, item) pairs of sets without a published split."""
    import polars as pl

    for folder, least in LEAST_LIKED.items():
        rows = pl.read_parquet(data / folder / "interactions.parquet")
        if least is not None:
            rows = rows.filter(pl.col("rating") >= least)
        rows = rows.unique(["user", "item"], maintain_order=True)
        pairs = {name: rows[name].to_numpy() for name in ("user", "item")}
        np.savez_compressed(out / f"{NAMES[folder]}.npz", **pairs)


def pairs_of(name: str, folder: str) -> tuple[Any, Any]:
    if name == "demo":
        import sdgar

        made = sdgar.synthetic("demo", seed=0)
        return made.users_E, made.items_E
    found = np.load(f"{folder}/{name}.npz")
    first = "" if "user" in found else "train_"
    return found[f"{first}user"], found[f"{first}item"]


def one(job: dict[str, Any]) -> dict[str, Any]:
    """Train and measure one run."""
    import sdgar
    from sdgar.data.interactions import Interactions
    from sdgar.data.splits import split

    sdgar.set_verbose(False)
    torch.set_num_threads(1)
    users_E, items_E = pairs_of(job["data"], job.pop("folder"))
    ids, count_U = np.unique(users_E, return_counts=True)
    order = np.random.default_rng(job["seed"]).permutation(len(ids))
    enough = int(np.searchsorted(np.cumsum(count_U[order]), job.pop("size") or len(users_E))) + 1
    some_E = np.isin(users_E, ids[order[:enough]])
    data = Interactions.from_arrays(users_E[some_E], items_E[some_E])
    train, test = split(data, "paper", seed=job["seed"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start = time.perf_counter()
    models = {
        "popular": lambda: sdgar.MostPopular(),
        "ease": lambda: sdgar.EASE(device="cpu"),
        "sdsoftmax": lambda: sdgar.SDSoftmax(tau=job["tau"], seed=job["seed"], device=device),
    }
    model = models[job["system"]]().fit(train)
    valid = model.trained_.valid["ndcg@50"] if job["system"] == "sdsoftmax" else None
    return {
        **job,
        "users": data.n_users, "items": data.n_items, "rows": len(data), "valid": valid,
        "test": model.evaluate(test).means()["ndcg@50"],
        "seconds": round(time.perf_counter() - start, 1),
    }  # fmt: skip


def run(folder: str, out: Path, processes: int) -> None:
    """Every set, size and temperature; a line of JSON for each."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    about = {
        "commit": os.environ.get("COMMIT", ""),
        "machine": f"{name}, torch {torch.__version__}",
    }
    jobs = []
    for size in SIZES:
        for data in SETS:
            systems = [("sdsoftmax", tau) for tau in (FEW if size else MANY)]
            systems += [("popular", None), *([("ease", None)] if size else [])]
            jobs += [
                {"folder": folder, "data": data, "size": size, "system": system, "tau": tau,
                 "seed": seed, **about}
                for seed in ((0, 1) if size and size < 60_000 else (0,)) for system, tau in systems
            ]  # fmt: skip
    with multiprocessing.get_context("spawn").Pool(processes) as pool, out.open("w") as lines:
        for found in pool.imap_unordered(one, jobs):
            lines.write(json.dumps(found) + "\n")
            lines.flush()


def table(lines: list[dict[str, Any]]) -> str:
    """Markdown: for each size, what the rule gives beside 0.12 and beside the best temperature."""
    from sdgar.parts.rules import temperature_of

    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        size = min((s for s in SIZES if s), key=lambda s: abs(s - line["rows"]))
        whole = line["rows"] > 90_000 or (line["tau"] in MANY and line["tau"] not in FEW)
        groups[0 if whole else size, line["data"]].append(line)
    rows = [
        "| data | rows | τ by the rule | best τ on validation rows | test, τ = 0.12 | nearest to "
        "the rule | best on validation rows | most popular | EASE |",
        "|---" * 9 + "|",
    ]
    for (_, data), group in sorted(groups.items(), key=lambda g: (g[0][0] or 10**9, g[0][1])):
        found: dict[Any, dict[str, float]] = {}
        for key in dict.fromkeys((line["system"], line["tau"]) for line in group):
            some = [line for line in group if (line["system"], line["tau"]) == key]
            valid = [line["valid"] for line in some if line["valid"] is not None]
            found[key] = {"test": mean(line["test"] for line in some)}
            found[key] |= {"valid": mean(valid)} if valid else {}
        taus = [tau for system, tau in found if system == "sdsoftmax"]
        n = round(mean(line["rows"] for line in group))
        rule = temperature_of(range(round(0.72 * n)))  # type: ignore[arg-type]
        best = max(taus, key=lambda tau: found["sdsoftmax", tau]["valid"])
        near = min(taus, key=lambda tau: abs(tau - rule))
        shown = [found["sdsoftmax", tau]["test"] for tau in (0.12, near, best)]
        others = [found.get((name, None), {}).get("test") for name in ("popular", "ease")]
        cells = [f"{v:.4f}" if v is not None else "" for v in (*shown, *others)]
        rows.append(f"| {data} | {n:,} | {rule:g} | {best:g} | {' | '.join(cells)} |")
    about = lines[0]
    rows += [
        "",
        f"NDCG@50; seeds 0 and 1 up to 20,000 rows, seed 0 above; `benchmarks/temperature.py` at "
        f"commit `{about['commit'][:7]}` on {about['machine']}.",
    ]
    return "\n".join(rows)


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "pack":
        pack(Path(words[0]), Path(words[1]))
    elif what == "run":
        run(words[0], Path(words[1]), int(words[2]))
    else:
        from busy_neighbour import fill_in

        lines = [json.loads(line) for line in REPORT.read_text().splitlines()]
        fill_in(Path(words[0]), table(lines), MARKS)


if __name__ == "__main__":
    main()
