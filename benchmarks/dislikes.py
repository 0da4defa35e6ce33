"""What rows that users rated low are worth as negatives, on MovieLens-100K.

    python benchmarks/dislikes.py pack DATA carry/ratings.npz     # Parquet → npz
    COMMIT=… PYTHONPATH=src python benchmarks/dislikes.py run carry/ratings.npz OUT.jsonl PROCESSES
    python benchmarks/dislikes.py show docs/splits.md              # fills in the page's table

Of each user's ratings, whatever they are, a fifth is held out for the test and a tenth of the rest
for validation. Ratings of 4 and above are likings; lower ones of the training part are seen: they
are left out of every list, and with probability p a negative is one of them. The epoch is chosen
on the likings held out for validation, and so is p; test rows are read once for every run.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import sys
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

REPORT = Path(__file__).parent / "reports" / "dislikes.jsonl"
MARKS = "<!-- dislikes -->", "<!-- /dislikes -->"
SYSTEMS = ("sdsoftmax", "sdgar", "bpr")
SHARES = (0.0, 0.05, 0.1, 0.2, 0.4)
SEEDS = (0, 1, 2)
LIKED = 4


def pack(data: Path, out: Path) -> None:
    """The ratings as arrays, for a machine without a reader of Parquet."""
    import polars as pl

    rows = pl.read_parquet(data / "movielens-100k" / "interactions.parquet")
    np.savez_compressed(out, **{name: rows[name].to_numpy() for name in ("user", "item", "rating")})


def held_out(users_E: Any, share: float, rng: np.random.Generator) -> Any:
    """Which rows are held out: a share of each user's, at random."""
    order = np.lexsort((rng.random(len(users_E)), users_E))
    sorted_E = users_E[order]
    first_E = np.flatnonzero(np.r_[True, sorted_E[1:] != sorted_E[:-1]])
    count_U = np.diff(np.r_[first_E, len(sorted_E)])
    rank_E = np.arange(len(sorted_E)) - np.repeat(first_E, count_U)
    out_E = np.zeros(len(users_E), bool)
    out_E[order] = rank_E < share * np.repeat(count_U, count_U)
    return out_E


def one(job: dict[str, Any]) -> dict[str, Any]:
    """Train and measure one run."""
    import sdgar
    from sdgar.data.interactions import Interactions
    from sdgar.systems.make import make

    sdgar.set_verbose(False)
    torch.set_num_threads(1)
    found = np.load(job["data"])
    users_E, items_E, rating_E = found["user"], found["item"], found["rating"]
    rng = np.random.default_rng(job["seed"])
    test_E = held_out(users_E, 0.2, rng)
    valid_E = np.zeros_like(test_E)
    valid_E[~test_E] = held_out(users_E[~test_E], 0.1, rng)
    liked_E, train_E = rating_E >= LIKED, ~test_E & ~valid_E
    train = Interactions.from_arrays(users_E[train_E & liked_E], items_E[train_E & liked_E])
    train = train.with_seen(users_E[train_E & ~liked_E], items_E[train_E & ~liked_E])
    valid, test = (
        Interactions.from_arrays(users_E[part & liked_E], items_E[part & liked_E])
        for part in (valid_E, test_E)
    )
    start = time.perf_counter()
    settings = {"seed": job["seed"], "device": job["device"]}
    settings |= {"dislikes": job["p"]} if job["p"] else {}
    model = make(job["system"], settings).fit(train, valid)
    return {
        **{name: job[name] for name in ("system", "p", "seed", "about")},
        "engine": model.trained_.engine,
        "best_epoch": model.trained_.best_epoch,
        "valid": model.evaluate(valid).means()["ndcg@50"],
        "test": model.evaluate(test).means()["ndcg@50"],
        "seconds": round(time.perf_counter() - start, 1),
    }


def run(data: str, out: Path, processes: int) -> None:
    """Every system, share and seed; a line of JSON for each."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    about = {
        "command": f"python benchmarks/dislikes.py run {data} {out.name} {processes}",
        "commit": os.environ.get("COMMIT", ""),
        "machine": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "torch": torch.__version__,
    }
    jobs = [
        {"data": data, "system": s, "p": p, "seed": seed, "device": device, "about": about}
        for s in SYSTEMS for p in SHARES for seed in SEEDS
    ]  # fmt: skip
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, maxtasksperchild=1) as pool, out.open("a") as lines:
        for found in pool.imap_unordered(one, jobs):
            lines.write(json.dumps(found) + "\n")
            lines.flush()
            print(found["system"], found["p"], found["seed"], round(found["test"], 4), flush=True)


def table(lines: list[dict[str, Any]]) -> str:
    """Markdown: validation and test of each share, and the share that validation chooses."""
    cells: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for line in lines:
        cells.setdefault((line["system"], line["p"]), []).append(line)
    head = " | ".join("none" if p == 0 else f"p = {p:g}" for p in SHARES)
    rows = [f"| system | rows | {head} | chosen |", "|---" * (len(SHARES) + 3) + "|"]
    for system in SYSTEMS:
        valid = {p: mean(line["valid"] for line in cells[system, p]) for p in SHARES}
        best = max(SHARES, key=lambda p: valid[p])
        for what in ("valid", "test"):
            shown = []
            for p in SHARES:
                values = [line[what] for line in cells[system, p]]
                shown.append(f"{mean(values):.4f} ± {stdev(values):.4f}")
            said = ("none" if best == 0 else f"p = {best:g}") if what == "valid" else ""
            name = f"`{system}`" if what == "valid" else ""
            rows.append(f"| {name} | {what} | {' | '.join(shown)} | {said} |")
    about = lines[0]["about"]
    rows += [
        "",
        f"Means and standard deviations of NDCG@50 over seeds {', '.join(map(str, SEEDS))}; "
        f"`{about['command']}` at commit `{about['commit'][:7]}` on {about['machine']}, "
        f"torch {about['torch']}.",
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
