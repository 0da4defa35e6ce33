"""Train many settings of a system on one data set and write what each reached, as JSON lines.

Needs only torch and NumPy, so that it runs on a bare GPU machine:

    python benchmarks/accuracy_grid.py pack ../shared/data carry          # here: Parquet → npz
    PYTHONPATH=src python benchmarks/accuracy_grid.py run carry/citeulike.npz grid.json out.jsonl

``grid.json`` is a list of {"name", "system", "seed", "protocol", "engine", "settings"}; settings
are fields of the system or of FitOptions. Where the folder of all sets is given instead of one
file, "data" names the set of each run. Protocol ``valid`` trains on 90 % of the training rows
and reports the validation metric only (for choosing); ``validated`` and ``paper`` are those of the
package. The yardsticks popular, item-knn, ials and ease have no epochs: both fit all training rows.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import torch

from sdgar import systems
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.evaluation.popularity import popularity
from sdgar.evaluation.report import evaluate
from sdgar.systems.ease import EASE
from sdgar.systems.ials import IALS
from sdgar.systems.item_knn import ItemKNN
from sdgar.training import protocols
from sdgar.training.fit import FitOptions
from team import answers

RECIPES = {
    kind.system_name: kind
    for kind in vars(systems).values()
    if isinstance(kind, type) and issubclass(kind, systems.Learner) and kind.system_name
}
SPLIT = {
    "citeulike": "citeulike-t",
    "gowalla": "gowalla",
    "lightgcn": "gowalla-lightgcn",
    "douban": "douban-book",
    "movies": "amazon-movies",
    "kgat": "amazon-book-kgat",
}
"""Data sets that come with a split of their own, and their folders."""
KS = (20, 50)
YARDSTICKS = {kind.system_name: kind for kind in (ItemKNN, IALS, EASE)}


def pack(shared: Path, out: Path) -> None:
    import polars as pl

    out.mkdir(exist_ok=True)
    for name, folder in SPLIT.items():
        arrays = {}
        for part in ("train", "test"):
            frame = pl.read_parquet(shared / folder / f"{part}.parquet")
            arrays |= {f"{part}_user": frame["user"], f"{part}_item": frame["item"]}
        np.savez_compressed(out / f"{name}.npz", **arrays)
    frame = pl.read_parquet(shared / "movielens-10m" / "interactions.parquet")
    data = Interactions.from_arrays(frame["user"].to_numpy(), frame["item"].to_numpy())
    arrays = {}
    for part, rows in zip(("train", "test"), splits.per_user(data, seed=0), strict=True):
        arrays |= {
            f"{part}_user": rows.users.at(rows.users_E).astype(np.int32),
            f"{part}_item": rows.items.at(rows.items_E).astype(np.int32),
        }
    np.savez_compressed(out / "movielens.npz", **arrays)


def load(path: Path) -> tuple[Interactions, Interactions]:
    file = np.load(path)
    return tuple(
        Interactions.from_arrays(file[f"{part}_user"], file[f"{part}_item"])
        for part in ("train", "test")
    )


def one(path: Path, device: str, job: dict) -> dict:
    train, test = load(path / f"{job['data']}.npz" if path.is_dir() else path)
    if job["system"] not in RECIPES:
        return yardstick(train, test, job, torch.device(device))
    recipe_fields = {f.name for f in fields(RECIPES[job["system"]])}
    settings = job.get("settings", {})
    recipe = RECIPES[job["system"]](**{k: v for k, v in settings.items() if k in recipe_fields})
    options = FitOptions(**{k: v for k, v in settings.items() if k not in recipe_fields})
    seed = job.get("seed", 0)
    run = protocols.Training(
        recipe=recipe,
        options=options,
        seed=seed,
        engine=job.get("engine", "auto"),
        device=torch.device(device),
    )
    started = time.perf_counter()
    if job["protocol"] == "paper":
        trained = protocols.paper(run, train, HeldOut.of(test, train))
    else:
        part = splits.validation(train, seed=seed)
        refit = train if job["protocol"] == "validated" else None
        trained = protocols.validated(run, part.train, part.held_out, refit_on=refit)
    result = {
        **job,
        "epochs": trained.epochs,
        "best_epoch": trained.best_epoch,
        "valid": trained.valid.get("ndcg@50"),
        "curve": [(r.epoch, round(r.metric, 4)) for _, r in trained.log if r.metric is not None],
        "health": trained.log[-1][1].health,
        "effective": trained.log[-1][1].effective,
        "train_seconds": round(trained.seconds.train, 2),
        "refit_seconds": round(trained.seconds.refit, 2),
        "seconds": round(time.perf_counter() - started, 2),
    }
    if job["protocol"] != "valid":
        held_out = HeldOut.of(test, train)
        result |= on_test(evaluate(trained.model, held_out, seen=train.history, ks=KS).means())
    return result


def on_test(means: dict[str, float]) -> dict:
    return {"test": means["ndcg@50"], "metrics": {name: round(v, 6) for name, v in means.items()}}


def yardstick(train: Interactions, test: Interactions, job: dict, device: torch.device) -> dict:
    """What is computed at once has no epoch to choose: one fit, one look."""
    name, look, seed = job["system"], "test", job.get("seed", 0)
    held_out = HeldOut.of(test, train)
    if job["protocol"] == "valid":
        look, (train, valid) = "valid", splits.validation(train, seed=seed)
        held_out = HeldOut.of(valid, train).sample(FitOptions().valid_users, seed=seed)
    settings = job.get("settings", {}) | ({"seed": seed} if name == "ials" else {})
    started = time.perf_counter()
    if name == "popular":
        scorer = popularity(train.history, train.n_items)
    else:
        scorer = YARDSTICKS[name](**settings).solve(train, device=device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    result = {**job, "seed": seed, "valid": None, "best_epoch": 0, "epochs": 0, "effective": None}
    result["train_seconds"] = round(time.perf_counter() - started, 2)
    means = evaluate(scorer, held_out, seen=train.history, ks=KS).means()
    result |= on_test(means) if look == "test" else {"valid": means["ndcg@50"]}
    result["seconds"] = round(time.perf_counter() - started, 2)
    return result


def run_grid(path: Path, grid: Path, out: Path, processes: int) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with out.open("a") as file:
        for result in answers(partial(one, path, device), json.loads(grid.read_text()), processes):
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(json.dumps({k: v for k, v in result.items() if k != "curve"}), flush=True)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "pack":
        pack(Path(words[0]), Path(words[1]))
    else:
        processes = int(words[3]) if len(words) > 3 else 1
        run_grid(Path(words[0]), Path(words[1]), Path(words[2]), processes)
