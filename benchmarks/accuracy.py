"""Train many settings of systems on data sets and write what each reached, as JSON lines.

    python benchmarks/accuracy.py pack DATA carry                 # Parquet → npz, needs polars
    python benchmarks/accuracy.py make GRID carry/GRID.jsonl      # a grid of grids.py
    PYTHONPATH=src python benchmarks/accuracy.py run carry carry/GRID.jsonl OUT.jsonl [PROCESSES]
    PYTHONPATH=src python benchmarks/accuracy.py paper carry OUT PROCESSES table2 trend …
    python benchmarks/accuracy.py show OUT.jsonl
    python benchmarks/accuracy.py plot DRAWS.jsonl FIGURE.png     # of the grid draws

Beside the package, ``run`` needs only torch and NumPy. A line of a grid is one job: {"data",
"system", "seed", "protocol", "settings"}, and maybe "rows". A line of OUT is a job with what came
out; jobs that have a line there are not run again. Protocols, of which ``validated`` and ``paper``
are those of the package:

    valid      the epoch is chosen on validation rows, which are reported; test rows are not read
    chosen     the same, and the chosen model reads the test rows
    validated  the epoch is chosen, the model is trained as long on all training rows, then the test
    paper      the epoch is chosen on the test rows
    fixed      all epochs on all training rows, then the test

``rows`` takes so many rows of users drawn at random. ``paper`` measures pieces of ``sdgar paper``
several at a time, as lines that ``sdgar paper NAME --out OUT`` finds.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import grids
from common import answers, device_name, from_npz, machine
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.data.synthetic import synthetic
from sdgar.lab import paper
from sdgar.lab.paper.measurements import Piece, ledger, measured_line, name_of
from sdgar.systems.make import estimator_from_params
from sdgar.systems.recipe import recipe_of
from sdgar.training.fitting import Fit

KS = (10, 20, 50)
JOB = ("data", "rows", "system", "seed", "protocol", "settings")
"""What distinguishes jobs."""
SPLIT = {
    "citeulike": "citeulike-t",
    "gowalla": "gowalla",
    "lightgcn": "gowalla-lightgcn",
    "douban": "douban-book",
    "movies": "amazon-movies",
    "kgat": "amazon-book-kgat",
    "book": "amazon-book-partial",
}
"""Data sets that come with a published split, and their folders."""
TIMED = {
    "ml-100k": "movielens-100k",
    "ml-1m-ordered": "movielens-1m-ordered",
    "beauty": "amazon-beauty",
    "videogames": "amazon-videogames",
}
"""Data sets whose last two events of everyone are the test and the validation row."""
WHOLE = {
    "lastfm": ("lastfm-2k", None),
    "steam": ("steam-200k", None),
    "ml100k": ("movielens-100k", 4),
    "anime": ("anime-5k", 7),
    "ml1m": ("movielens-1m", 4),
    "videogames-whole": ("amazon-videogames", None),
    "beauty-whole": ("amazon-beauty", None),
    "s3-beauty": ("s3rec-beauty", None),
    "s3-sports": ("s3rec-sports", None),
}
"""Data sets without a split, and the least rating that is a positive."""
RATED = {
    "ratings": ("movielens-100k", 4, 4),
    "ratings-neutral": ("movielens-100k", 4, 3),
    "anime-ratings": ("anime-5k", 7, 5),
}
"""Data sets whose low ratings are kept: the folder, the least rating that is a positive, and the
one below which a rating is a dislike. A rating of 0, of what was watched and not rated, is left
out."""


@dataclass
class Parts:
    """The rows of one job."""

    train: Interactions
    """All training rows, validation rows included."""
    test: Interactions
    split: splits.Split
    """The training rows again: rows to train on, and rows for validation."""
    disliked: Interactions | None = None
    """Dislikes that were held out with the test rows, which lists had better not have."""


# Data


def pack(shared: Path, out: Path) -> None:
    """Write the data sets as arrays, for machines without a reader of Parquet."""
    import polars as pl

    out.mkdir(exist_ok=True)

    def save(name: str, **arrays: Any) -> None:
        np.savez_compressed(out / f"{name}.npz", **arrays)

    def read(folder: str, file: str = "interactions") -> Any:
        return pl.read_parquet(shared / folder / f"{file}.parquet")

    for name, folder in SPLIT.items():
        parts = {part: read(folder, part) for part in ("train", "test")}
        save(name, **{f"{p}_{c}": f[c] for p, f in parts.items() for c in ("user", "item")})
    frame = read("movielens-10m")
    data = Interactions.from_arrays(frame["user"].to_numpy(), frame["item"].to_numpy())
    arrays = {}
    for part, rows in zip(("train", "test"), splits.per_user(data, seed=0), strict=True):
        arrays[f"{part}_user"] = rows.users.at(rows.users_E).astype(np.int32)
        arrays[f"{part}_item"] = rows.items.at(rows.items_E).astype(np.int32)
    save("movielens", **arrays)
    for name, folder in TIMED.items():
        frame = read(folder)
        order = "timestamp" if "timestamp" in frame.columns else "position"
        save(name, user=frame["user"], item=frame["item"], time=frame[order])
    for name, (folder, least) in WHOLE.items():
        frame = read(folder)
        if least is not None:
            frame = frame.filter(pl.col("rating") >= least)
        frame = frame.unique(["user", "item"], maintain_order=True)
        save(name, user=frame["user"], item=frame["item"])
    for name, (folder, _, _) in RATED.items():
        frame = read(folder).filter(pl.col("rating") > 0)
        save(name, **{column: frame[column] for column in ("user", "item", "rating")})


def load(folder: Path, job: dict[str, Any]) -> Parts:
    """Read the rows of a job and split them, in the way of their data set."""
    seed, path = job.get("seed") or 0, folder / f"{job['data']}.npz"
    if job["data"] == "demo":
        made = synthetic("demo", seed=0)
        return _sampled(made.users_E, made.items_E, job.get("rows"), seed)
    with np.load(path) as file:
        arrays = dict(file)
    if "train_user" in arrays:
        train, test = from_npz(path)
        return Parts(train, test, splits.validation(train, seed=seed))
    users_E, items_E = arrays["user"], arrays["item"]
    if "rating" in arrays:
        _, liked, low = RATED[job["data"]]
        return _rated(users_E, items_E, arrays["rating"], liked, low, seed)
    if "time" in arrays:
        everything = Interactions.from_arrays(users_E, items_E, time=arrays["time"])
        before = splits.leave_last_out(everything)
        return Parts(before.train, before.held_out, splits.leave_last_out(before.train))
    return _sampled(users_E, items_E, job.get("rows"), seed)


def _sampled(users_E: Any, items_E: Any, rows: int | None, seed: int) -> Parts:
    """Draw users until they have so many rows; a fifth of each user's rows is the test."""
    ids, count_U = np.unique(users_E, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(ids))
    enough = int(np.searchsorted(np.cumsum(count_U[order]), rows or len(users_E))) + 1
    some_E = np.isin(users_E, ids[order[:enough]])
    data = Interactions.from_arrays(users_E[some_E], items_E[some_E])
    train, test = splits.split(data, "paper", seed=seed)
    return Parts(train, test, splits.validation(train, seed=seed))


def _rated(users_E: Any, items_E: Any, rating_E: Any, liked: int, low: int, seed: int) -> Parts:
    """Hold out a fifth of each user's ratings, whatever they are, and a tenth of the rest.

    Likings are learned from and looked for; what the user rated lower in training is seen, and what
    is rated below ``low`` is disliked.
    """
    rng = np.random.default_rng(seed)
    test_E = _held_out(users_E, 0.2, rng)
    valid_E = np.zeros_like(test_E)
    valid_E[~test_E] = _held_out(users_E[~test_E], 0.1, rng)
    liked_E, train_E = rating_E >= liked, ~test_E & ~valid_E

    def of(some_E: Any) -> Interactions:
        return Interactions.from_arrays(users_E[some_E], items_E[some_E])

    low_E, disliked_E = train_E & ~liked_E, rating_E < low
    neutral = None if low == liked else ~disliked_E[low_E]
    train = of(train_E & liked_E).with_seen(users_E[low_E], items_E[low_E], neutral=neutral)
    valid = of(valid_E & liked_E)
    split = splits.Split(train, valid, "ratings")
    return Parts(merge(train, valid), of(test_E & liked_E), split, of(test_E & disliked_E))


def _held_out(users_E: Any, share: float, rng: np.random.Generator) -> Any:
    """Choose a share of each user's rows at random."""
    order = np.lexsort((rng.random(len(users_E)), users_E))
    sorted_E = users_E[order]
    first_E = np.flatnonzero(np.r_[True, sorted_E[1:] != sorted_E[:-1]])
    count_U = np.diff(np.r_[first_E, len(sorted_E)])
    rank_E = np.arange(len(sorted_E)) - np.repeat(first_E, count_U)
    out_E = np.zeros(len(users_E), bool)
    out_E[order] = rank_E < share * np.repeat(count_U, count_U)
    return out_E


# Runs


def one(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Train and measure one job."""
    parts, protocol = load(folder, job), job["protocol"]
    own = {"seed": job["seed"], "early_stopping": protocol != "fixed"}
    known = estimator_from_params(job["system"], {}).get_params()
    estimator = estimator_from_params(
        job["system"], {k: v for k, v in own.items() if k in known} | job.get("settings", {})
    )
    start = time.perf_counter()
    if protocol == "paper":
        recipe_of(estimator).fit(Fit(rows=parts.train, test=parts.test, protocol="paper"))
    elif protocol in ("valid", "chosen"):
        estimator.fit(parts.split.train, parts.split.held_out)
    else:
        estimator.fit(parts.train)
    trained = recipe_of(estimator).trained
    valid = trained.valid
    if protocol in ("valid", "chosen") and not valid:
        valid = estimator.evaluate(parts.split.held_out, ks=KS).means()
    records = [record for _, record in trained.log]
    result = {
        **job,
        "epochs": trained.epochs,
        "best_epoch": trained.best_epoch,
        "valid": valid.get("ndcg@50"),
        "curve": [(r.epoch, round(r.metric, 5)) for r in records if r.metric is not None],
        "generator": trained.generator,
        "memory": trained.memory,
        "engine": trained.engine,
        "train_seconds": round(trained.seconds.train, 2),
        "refit_seconds": round(trained.seconds.refit, 2),
        "sizes": {"users": parts.train.n_users, "items": parts.train.n_items,
                  "rows": len(parts.train) + len(parts.test)},
        "seconds": round(time.perf_counter() - start, 2),
        "about": {"commit": machine()["commit"], "machine": device_name()},
    }  # fmt: skip
    if protocol != "valid":
        means = estimator.evaluate(parts.test, ks=KS).means()
        result["test"] = means["ndcg@50"]
        result["metrics"] = {name: round(value, 6) for name, value in means.items()}
    if protocol != "valid" and parts.disliked is not None:
        result["disliked"] = estimator.evaluate(parts.disliked, ks=KS).means()["recall@50"]
    return result


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines; a file that is not there has none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key_of(job: dict[str, Any]) -> str:
    """Return what distinguishes jobs."""
    return json.dumps({name: job.get(name) for name in JOB}, sort_keys=True)


def run(folder: Path, grid: Path, out: Path, processes: int = 1) -> None:
    """Run the jobs that have no line yet."""
    done = {key_of(line) for line in lines_of(out) if "error" not in line}
    todo = [job for job in lines_of(grid) if key_of(job) not in done]
    with out.open("a") as file:
        for result in answers(partial(one, folder), todo, processes):
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(_shown(result), flush=True)


def run_paper(data: Path, out: Path, processes: int, names: list[str]) -> None:
    """Measure what is missing of the paper's experiments, the longest first."""
    todo = []
    for name in names:
        with ledger(out / f"{name}.jsonl") as kept:
            todo += [
                (piece.epochs, name, number)
                for number, piece in enumerate(_pieces(name, data))
                if kept.find(name_of(piece.key)) is None
            ]
    jobs = [(name, number) for _, name, number in sorted(todo, reverse=True)]
    for line in answers(partial(_piece, data), jobs, processes):
        if "error" not in line:
            with ledger(out / f"{line.pop('name')}.jsonl") as kept:
                kept.add(line)
        print(json.dumps({k: v for k, v in line.items() if k != "values"}), flush=True)


def _pieces(name: str, data: Path) -> list[Piece]:
    found: list[Piece] = paper.named(name)[0].pieces(paper.PaperOptions(data=data))
    return found


def _piece(data: Path, job: tuple[str, int]) -> dict[str, Any]:
    name, number = job
    line = measured_line(_pieces(name, data)[number], "auto", lambda phase, epoch: None)
    return {"name": name} | line


def _shown(line: dict[str, Any]) -> str:
    """Return in one line what a job reached."""
    if "error" in line:
        return f"{line['job']}: {line['error']}"
    value = {k: round(line[k], 4) for k in ("valid", "test") if line.get(k) is not None}
    words = [line.get("data"), line["system"], line.get("protocol"), line.get("seed")]
    epoch = f"{line.get('best_epoch')}/{line.get('epochs')}"
    return f"{' '.join(map(str, words))} {line.get('settings')}: {value}, epoch {epoch}"


def plot_draws(report: Path, figure: Path) -> None:
    """Draw NDCG@50 against the number of draws, by who proposes."""
    from matplotlib.figure import Figure

    reached: dict[str, dict[int, list[float]]] = {name: {} for name in grids.PROPOSALS}
    for run in lines_of(report):
        if "error" not in run:
            settings = run["settings"]
            of = reached[settings["sampler"]]
            of.setdefault(settings["n_negatives"], []).append(run["valid"])
    fig = Figure(figsize=(6, 4), layout="constrained")
    axes = fig.subplots()
    looks = zip(grids.PROPOSALS.items(), ("#D55E00", "#009E73", "#0072B2"), "s^o", strict=True)
    for (proposal, label), colour, mark in looks:
        n, several = zip(*sorted(reached[proposal].items()), strict=True)
        spread = [float(np.std(v, ddof=1)) if len(v) > 1 else 0.0 for v in several]
        axes.errorbar(n, [float(np.mean(v)) for v in several], yerr=spread, marker=mark,
                      color=colour, capsize=3, label=label)  # fmt: skip
    axes.set(xscale="log", xlabel="draws for each positive", ylabel="NDCG@50, validation rows")
    axes.set_xticks(grids.DRAWS, [str(n) for n in grids.DRAWS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    fig.savefig(figure, dpi=150)


def main(command: str, *words: str) -> None:
    """Do one of the things that the docstring names."""
    if command == "pack":
        pack(Path(words[0]), Path(words[1]))
    elif command == "make":
        jobs = grids.GRIDS[words[0]]()
        Path(words[1]).write_text("".join(json.dumps(job) + "\n" for job in jobs))
    elif command == "paper":
        run_paper(Path(words[0]), Path(words[1]), int(words[2]), list(words[3:]))
    elif command == "plot":
        plot_draws(Path(words[0]), Path(words[1]))
    elif command == "show":
        for path in words:
            for line in lines_of(Path(path)):
                print(_shown(line))
    else:
        run(Path(words[0]), Path(words[1]), Path(words[2]), *map(int, words[3:]))


if __name__ == "__main__":
    main(*sys.argv[1:])
