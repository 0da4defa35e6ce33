"""The grids of accuracy.py as data: who is trained, on what, with which settings.

Every grid is a function that returns jobs. Searches look at validation rows only, with seed 0. What
a search chose is read from its report, so that ``sdsoftmax-final`` and ``baselines-final`` can be
made only after it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sdgar.lab.paper.chosen import BASELINES, REAL, settings_of
from sdgar.lab.paper.chosen import SYSTEMS as PAPERS
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of

REPORTS = Path(__file__).parent / "reports"
SEEDS = (0, 1, 2)
Job = dict[str, Any]
DATASETS = {
    "citeulike": "CiteULike",
    "gowalla": "Gowalla",
    "movielens": "MovieLens-10M",
    "lightgcn": "Gowalla, LightGCN's split",
    "movies": "Amazon-Movies",
    "kgat": "Amazon-Book, KGAT's split",
    "douban": "Douban-Book",
}
FURTHER = {
    "book": "Amazon-Book, three quarters of it",
    "ml1m": "MovieLens-1M",
    "steam": "Steam",
    "videogames-whole": "Amazon-VideoGames",
    "beauty-whole": "Amazon-Beauty",
    "s3-beauty": "Beauty, 5-core",
    "s3-sports": "Sports, 5-core",
}
"""The other data sets with at least 5,000 users."""


def job(data: str, system: str, seed: int, protocol: str, **settings: Any) -> Job:
    """Make one line of a grid."""
    return {"data": data, "system": system, "seed": seed, "protocol": protocol,
            "settings": settings}  # fmt: skip


def product(space: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of the values of a space."""
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]


# The search behind the paper's Table 2: the settings in lab/paper/chosen.py

SPACES: dict[str, dict[str, list[Any]]] = {
    "bpr": {"l2": [0.002, 0.005, 0.01, 0.02, 0.03, 0.05], "learning_rate": [0.05, 0.1, 0.2, 0.4]},
    "aobpr": {
        "l2": [0.01, 0.02, 0.05, 0.1],
        "rank_scale": [0.02, 0.05, 0.15],
        "learning_rate": [0.1, 0.2],
    },
    "warp": {
        "l2": [0.2, 0.5, 1.0, 2.0],
        "max_tries": [10, 30],
        "learning_rate": [0.1, 0.2, 0.4],
    },
    "cml": {
        "margin": [0.5, 1.0, 1.5, 2.0],
        "learning_rate": [0.05, 0.1, 0.2],
        "n_negatives": [5, 20],
    },
    "dns": {
        "l2": [0.01, 0.02, 0.05, 0.1],
        "candidates": [2, 5, 10],
        "learning_rate": [0.1, 0.2],
    },
    "irgan": {
        "sampler__l2": [0.1, 0.15, 0.2, 0.3, 0.45, 0.6],
        "sampler__pretrain": [40, 120],
        "sampler__pretrain_rate": [0.01, 0.03],
        "sampler__batch_size": [1024],
        "batch_size": [8192],
        "early_stopping__every": [1],
    },
    "sa": {
        "l2": [0.01, 0.02, 0.05],
        "temperature": [0.1, 0.25, 0.5, 1.0],
        "learning_rate": [0.1, 0.2],
    },
    "sdgar": {
        "l2": [0.01, 0.02, 0.05],
        "temperature": [0.1, 0.25, 0.5, 1.0],
        "learning_rate": [0.1, 0.2],
    },
    "popular": {},
    "item-knn": {"neighbours": [20, 50, 100, 200, 500], "shrink": [0.0, 5.0, 20.0, 100.0]},
    "ials": {
        "dim": [32],
        "alpha": [0.003, 0.01, 0.03, 0.1],
        "l2": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3],
    },
    "ease": {"l2": [3.0, 10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 1000.0]},
}
MOST_EPOCHS = {"irgan": 4}
"""300 for the others. IRGAN's generator is best before the game or soon after its start."""


def table2() -> list[Job]:
    """24 settings for each learned system, 8 to 24 for a baseline, on the paper's three sets."""
    jobs = []
    for data, (system, space) in itertools.product(REAL, SPACES.items()):
        epochs = {} if system in BASELINES else {"epochs": MOST_EPOCHS.get(system, 300)}
        jobs += [job(data, system, 0, "valid", **chosen, **epochs) for chosen in product(space)]
    return jobs


# SD-Softmax compared with EASE and iALS on seven data sets

SEARCH = {"epochs": 60, "early_stopping": False}
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"tau": 0.1},
    {"tau": 0.15},
    {"learning_rate": 0.1},
    {"learning_rate": 0.03},
    {"l2": 0.3},
)
"""The settings that are changed from the defaults, one at a time."""
DIMS = (64, 128)
IALS = {"dim": (128, 256, 512), "alpha": (0.003, 0.01, 0.03, 0.1), "l2": (0.001, 0.003, 0.01, 0.03)}
EASE = (30.0, 60.0, 100.0, 200.0, 300.0, 500.0, 1000.0)


def sdsoftmax() -> list[Job]:
    """12 settings of SD-Softmax, 60 epochs each, 7 of EASE and 48 of iALS, on each data set."""
    jobs = []
    for data in DATASETS:
        for dim, changes in itertools.product(DIMS, CHANGES):
            jobs.append(job(data, "sdsoftmax", 0, "valid", **SEARCH, dim=dim, **changes))
        jobs += [job(data, "ease", 0, "valid", l2=l2) for l2 in EASE]
        jobs += [job(data, "ials", 0, "valid", **chosen) for chosen in product(IALS)]
    return jobs


def sdsoftmax_final() -> list[Job]:
    """The defaults at both sizes and the best of each search, with three seeds."""
    jobs = []
    for data in DATASETS:
        for dim, seed in itertools.product(DIMS, SEEDS):
            jobs.append(job(data, "sdsoftmax", seed, "validated", dim=dim))
        for row, run in chosen(data).items():
            settings = run["settings"]
            if run["system"] == "sdsoftmax":
                settings = {"dim": settings["dim"], **changes_of(run)}
            seeds = (0,) if row == "ease" else SEEDS
            jobs += [job(data, run["system"], seed, "validated", **settings) for seed in seeds]
    return jobs


def searched(dataset: str) -> list[dict[str, Any]]:
    """Return the runs of the search; EASE's on the paper's three sets are in Table 2."""
    runs = _lines(REPORTS / "sdsoftmax" / f"{dataset}-search.jsonl")
    earlier = _lines(REPORTS / "table2" / f"{dataset}-search.jsonl")
    runs += [run for run in earlier if run["system"] == "ease"]
    return [run for run in runs if "error" not in run]


def of_row(run: dict[str, Any]) -> str | None:
    """Name the row that a line of the search competes for."""
    if run["system"] != "sdsoftmax":
        return run["system"]
    dim = run["settings"]["dim"]
    return f"tuned{dim}" if changes_of(run) in CHANGES else None


def changes_of(run: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that were not the defaults when it was made."""
    defaults = {"tau": 0.12, "learning_rate": 0.05, "l2": 0.1, "similarity__bias": True,
                "sampler__refit_every": 2, "sampler__positives_per_visit": 2}  # fmt: skip
    held = (*SEARCH, "early_stopping__every", "dim")
    return {k: v for k, v in run["settings"].items() if k not in held and defaults.get(k) != v}


def chosen(dataset: str) -> dict[str, dict[str, Any]]:
    """Return the best run of each row of the table, by validation rows."""
    best: dict[str, dict[str, Any]] = {}
    for run in searched(dataset):
        row = of_row(run)
        if row is not None and run["valid"] > best.get(row, {"valid": 0})["valid"]:
            best[row] = run
    return best


# Baselines, all with as many trials

MEASURED = ("citeulike", "gowalla", "movielens", "movies", "kgat", "douban")
ALSO_MEASURED = ("ml1m", "steam", "s3-beauty", "s3-sports", "videogames-whole", "beauty-whole")
"""Further sets of 5,000 users or more, on which one search and one final run are made alike."""
SEARCHED_BASELINES = REPORTS / "yardsticks" / "search.jsonl"
"""The report of the grid ``baselines``."""
LATER: tuple[dict[str, float], ...] = (
    {"beta": 0.3, "dropout": 0.6, "alpha": 0.2},
    {"beta": 0.3, "dropout": 0.3, "alpha": 0.2},
    {"beta": 0.5, "alpha": 0.3},
    {"beta": 0.3, "dropout": 0.6, "xi": 0.1},
)
"""Options of EASE; the first has the powers and dropout that DAN's authors chose for Gowalla."""
MOST_MEMORY = {"ram_gib": 30.0}
"""EASE takes no more, so that several jobs share a GPU."""
TRIES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "ease": (
        "ease",
        [{"l2": l2, **MOST_MEMORY} for l2 in (
            10.0, 20.0, 35.0, 60.0, 100.0, 150.0, 200.0, 300.0, 400.0, 600.0, 1000.0, 2000.0
        )],
    ),
    "ease-options": (
        "ease",
        [{"l2": l2, **MOST_MEMORY, **options} for options in LATER for l2 in (20.0, 60.0, 300.0)],
    ),
    "elsa": (
        "elsa",
        product({"dim": (128, 512, 2048), "learning_rate": (0.02, 0.1), "epochs": (5, 20)}),
    ),
    "ials": (
        "ials",
        product({"dim": (512,), "alpha": (0.005, 0.01, 0.03, 0.05), "l2": (0.003, 0.007, 0.02)}),
    ),
    "item-knn": (
        "item-knn",
        product({"neighbours": (20, 50, 100, 200), "shrink": (5.0, 20.0, 100.0)}),
    ),
}  # fmt: skip
"""The system of each row of the table, and the twelve settings of it that are tried."""


def baselines() -> list[Job]:
    """12 settings of every baseline on each data set; iALS has D = 512, which was best before."""
    return [
        job(data, system, 0, "valid", **settings)
        for data, (system, tried) in itertools.product((*MEASURED, *ALSO_MEASURED), TRIES.values())
        for settings in tried
    ]


def baselines_final() -> list[Job]:
    """The best of each search, with three seeds where a seed plays a part."""
    jobs = []
    for data in (*MEASURED, *ALSO_MEASURED):
        for run in chosen_baselines(data).values():
            system, settings = run["system"], run["settings"]
            seeds = SEEDS if "seed" in SYSTEMS[system]().get_params() else (0,)
            jobs += [job(data, system, seed, "validated", **settings) for seed in seeds]
    return jobs


def chosen_baselines(dataset: str) -> dict[str, dict[str, Any]]:
    """Return the best run of each row of ``TRIES`` by validation rows."""
    runs = [run for run in _lines(SEARCHED_BASELINES) if run.get("data") == dataset]
    best = {}
    for row, (system, tried) in TRIES.items():
        own = [run for run in runs if run["system"] == system and run["settings"] in tried]
        if own:
            best[row] = max(own, key=lambda run: run["valid"])
    return best


# Defaults, draws, temperatures, dislikes, networks

PROTOCOLS = ("validated", "paper")
LONG = {"irgan": 100, "cml": 20, "bpr": 6}
"""Systems whose runs take longest start first."""
NOT_SETTINGS = ("seed", "engine", "device", "early_stopping")


def defaults() -> list[Job]:
    """Every system of the paper with its own defaults, by both protocols."""
    return [
        job(data, system, seed, protocol, **_defaults_of(system))
        for system in sorted(PAPERS, key=lambda name: -LONG.get(name, 1))
        for data in reversed(REAL)
        for protocol in PROTOCOLS
        for seed in SEEDS
    ]


def _defaults_of(system: str) -> dict[str, Any]:
    params = recipe_of(SYSTEMS[system]()).settings
    return {name: value for name, value in params.items() if name not in NOT_SETTINGS}


PROPOSALS = {"uniform": "uniform", "popularity": "popularity", "em": "generator, fitted by EM"}
DRAWS = (4, 8, 16, 32, 64, 256, 1024, 4096)
MOST_FUSED = 64
"""The most draws that the fused GPU kernels hold in registers; above it the eager engine runs."""


def draws() -> list[Job]:
    """SD-Softmax with more and more draws by three proposals, on CiteULike."""
    same = {
        "dim": 32,
        "tau": 0.15,
        "epochs": 20,
        "sampler__positives_per_visit": 1,
        "early_stopping": False,
    }
    return [
        job("citeulike", "sdsoftmax", seed, "valid", **same, sampler=proposal, n_negatives=n,
            engine="auto" if n <= MOST_FUSED else "eager")
        for n in reversed(DRAWS) for proposal in PROPOSALS for seed in SEEDS
    ]  # fmt: skip


SAMPLED = ("demo", "lastfm", "steam", "ml100k", "anime", "citeulike", "gowalla", "douban", "kgat")
SIZES = (2_000, 6_000, 20_000, 60_000, None)
"""Rows of the samples; None takes all."""
FEW, MANY = (0.12, 0.18, 0.25, 0.35, 0.5, 0.8), (0.10, 0.12, 0.14, 0.16, 0.18, 0.21)
"""Temperatures for samples, and for whole sets."""


def temperature() -> list[Job]:
    """Temperatures of SD-Softmax on samples of many sizes, compared with EASE and most popular."""
    jobs = []
    for size, data in itertools.product(SIZES, SAMPLED):
        for seed in (0, 1) if size and size < 60_000 else (0,):
            tried = [
                job(data, "sdsoftmax", seed, "validated", tau=t) for t in (FEW if size else MANY)
            ]
            tried.append(job(data, "popular", seed, "validated"))
            tried += [job(data, "ease", seed, "validated", device="cpu")] if size else []
            jobs += [one | {"rows": size} for one in tried]
    return jobs


DISLIKING = ("sdsoftmax", "sdgar", "bpr")
SHARES = (0.0, 0.05, 0.1, 0.2, 0.4)


def dislikes() -> list[Job]:
    """Shares of negatives that users rated low, on MovieLens-100K."""
    return [
        job("ratings", system, seed, "chosen", **({"sampler__dislikes": p} if p else {}))
        for system in DISLIKING for p in SHARES for seed in SEEDS
    ]  # fmt: skip


DISLIKED = {"ratings-neutral": SEEDS, "anime-ratings": SEEDS[:1]}


def disliked() -> list[Job]:
    """No dislikes and a tenth of them, where ratings in the middle are neither; with seeds."""
    return [
        job(data, system, seed, "chosen", **({"sampler__dislikes": p} if p else {}))
        for data, seeds in DISLIKED.items()
        for seed in seeds for system in DISLIKING for p in (0.0, 0.1)
    ]  # fmt: skip


NEIGHBOURLY = ("movielens", "ml1m", "anime", "douban", "movies", "ml100k", "kgat", "steam", "book",
               "gowalla", "s3-sports", "citeulike")  # fmt: skip
"""The data sets of the grid of neighbours, those with the most rows an item first."""


def memory() -> list[Job]:
    """SD-Softmax without and with an item memory, the memory alone, and quick."""
    everywhere = (*DATASETS, *FURTHER)
    alone = [job(d, name, 0, "validated") for name in ("local-ease", "quick") for d in everywhere]
    return alone + [
        job(data, "sdsoftmax", seed, "validated", item_memory=weight)
        for seed, data, weight in itertools.product(SEEDS, everywhere, (0.0, None))
    ]


def neighbours() -> list[Job]:
    """SD-Softmax with several numbers of neighbours in its memory, on validation rows."""
    return [
        job(data, "sdsoftmax", seed, "valid", item_memory__neighbours=k)
        for data, seed, k in itertools.product(NEIGHBOURLY, (0, 1), (50, 100, 200, 400))
    ]


def neighbours_of_quick() -> list[Job]:
    """The same for quick, which has to be there in seconds."""
    return [
        job(data, "quick", 0, "valid", item_memory__neighbours=k)
        for data, k in itertools.product(NEIGHBOURLY, (50, 100, 200))
    ]


def lightgcn() -> list[Job]:
    """SD-Softmax with its memory on LightGCN's split: a search on validation rows."""
    small = {"sampler__refit_every": 4, "sampler__samples": 64}
    two = {**small, "sampler__positives_per_visit": 2, "batch_size": 2048}
    wide = [
        {**two, "dim": dim, "epochs": epochs, **tau}
        for dim, epochs, tau in itertools.product((256, 512), (16, 32, 64), ({}, {"tau": 0.1}))
    ]
    middle = {**two, "dim": 256, "epochs": 32, "tau": 0.1}
    near = [
        {"sampler__positives_per_visit": p, "batch_size": b}
        for p, b in ((1, 1024), (1, 2048), (4, 4096))
    ]
    near += [
        {"learning_rate": 0.1},
        {"learning_rate": 0.25},
        {"n_negatives": 128},
        {"item_memory__neighbours": 100},
    ]
    every = [*wide, *({**middle, **change} for change in near)]
    return [job("lightgcn", "sdsoftmax", 0, "valid", **settings) for settings in every]


def anew() -> list[Job]:
    """What the default would give if it started again on all rows, with the weight it chose."""
    return [
        job(run["data"], "sdsoftmax", run["seed"], "fixed", item_memory=run["memory"])
        for run in _lines(REPORTS / "memory.jsonl")
        if run["system"] == "sdsoftmax" and run["settings"]["item_memory"] is None
    ]


def thorough() -> list[Job]:
    """SD-Softmax with the settings of --thorough."""
    own = {"dim": 256, "epochs": 16, "sampler__positives_per_visit": 2, "batch_size": 2048,
           "sampler__refit_every": 4, "sampler__samples": 64}  # fmt: skip
    return [
        job(data, "sdsoftmax", seed, "validated", **own)
        for seed, data in itertools.product(SEEDS, (*DATASETS, *FURTHER))
    ]


def networks() -> list[Job]:
    """Networks with learned and with uniform negatives: the jobs of the report, to be run again."""
    return [{k: run[k] for k in ("data", "system", "seed", "protocol", "settings")}
            for run in _lines(REPORTS / "networks" / "final.jsonl")]  # fmt: skip


NEAR = {"discriminator": "factorization", "sampler": "search", "optimizer": "adagrad",
        "learning_rate": 0.1, "dim": 32, "sampler__refit_every": 2}  # fmt: skip
"""Negatives among the best items, found by an index."""
LOOKS = {"epochs": 60, "early_stopping__every": 5, "early_stopping__patience": 2}


def proposals() -> list[Job]:
    """Negatives near the best item, by search, compared with BPR, DNS and SD-GAR."""
    jobs = []
    for data in ("citeulike", "gowalla"):
        for system in ("bpr", "dns", "sdgar"):
            jobs.append(job(data, system, 0, "valid", **settings_of(system, data), **LOOKS))
        l2 = settings_of("sdgar", data)["l2"]
        for index, near, explore, objective, n in (
            ("hnsw", 1, 0.0, "bpr", 1), ("hnsw", 50, 0.0, "bpr", 1), ("exact", 500, 0.0, "bpr", 1),
            ("exact", 50, 0.5, "bpr", 1), ("hnsw", 50, 0.5, "bpr", 1), ("pq", 50, 0.5, "bpr", 1),
            ("exact", 500, 0.5, "bpr", 1), ("hnsw", 50, 0.5, "sdgar", 5),
        ):  # fmt: skip
            own = {"sampler__index": index, "sampler__near": near, "sampler__explore": explore}
            jobs.append(
                job(data, "composed", 0, "valid", **NEAR, **LOOKS, l2=l2, objective=objective,
                    n_negatives=n, **own)
            )  # fmt: skip
    return jobs


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


GRIDS: dict[str, Callable[[], list[Job]]] = {
    "table2": table2,
    "sdsoftmax": sdsoftmax,
    "sdsoftmax-final": sdsoftmax_final,
    "baselines": baselines,
    "baselines-final": baselines_final,
    "defaults": defaults,
    "draws": draws,
    "temperature": temperature,
    "dislikes": dislikes,
    "disliked": disliked,
    "memory": memory,
    "neighbours": neighbours,
    "neighbours-of-quick": neighbours_of_quick,
    "lightgcn": lightgcn,
    "anew": anew,
    "thorough": thorough,
    "networks": networks,
    "proposals": proposals,
}
