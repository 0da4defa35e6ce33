"""The paper's systems and data sets: settings that a search chose, published numbers, rows.

The settings were chosen on validation rows for Table 2 (docs/results-more.md). A data set is real
if a folder has it, else synthetic, of the same shape.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.splits import Split
from sdgar.data.synthetic import synthetic
from sdgar.lab.datasets import DATASETS

SYSTEMS = ("bpr", "aobpr", "warp", "cml", "dns", "irgan", "sa", "sdgar")
"""The systems of the paper's table, in its order."""
BASELINES = ("popular", "item-knn", "ials", "ease")

_AT_ONE_RATE = {
    "optimizer__schedule": "constant",
    "learning_rate": 0.05,
    "similarity__sweeps": 3,
    "early_stopping__every": 5,
    "sampler__positives_per_visit": 2,
    "sampler__refit_every": 2,
    "sampler__samples": 64,
    "batch_size": 2048,
}
"""SD-Softmax trained like the paper's systems: at one rate, until validation rows say stop."""

NAMES = {name: name.upper() for name in (*SYSTEMS, "ease")} | {
    "sdgar": "SD-GAR",
    "sdsoftmax": "SD-Softmax",
    "popular": "Most popular",
    "item-knn": "Item-kNN",
    "ials": "iALS",
}
"""The names of systems in tables and figures."""

SETTINGS: dict[str, dict[str, Any]] = {
    "bpr": {"l2": (0.02, 0.005, 0.005), "learning_rate": (0.4, 0.2, 0.2)},
    "aobpr": {
        "l2": (0.05, 0.02, 0.02),
        "rank_scale": (0.02, 0.05, 0.05),
        "learning_rate": (0.1, 0.1, 0.2),
    },
    "warp": {"l2": (2.0, 1.0, 0.5), "learning_rate": (0.2, 0.2, 0.4)},
    "cml": {"learning_rate": (0.2, 0.05, 0.05)},
    "dns": {"l2": (0.1, 0.02, 0.02), "learning_rate": 0.1},
    "irgan": {
        "sampler__l2": (0.45, 0.3, 0.15),
        "sampler__pretrain": (120, 120, 40),
        "sampler__pretrain_rate": (0.03, 0.01, 0.01),
        "sampler__batch_size": 1024,
        "batch_size": 8192,
        "early_stopping__every": 1,
    },
    "sa": {
        "l2": (0.05, 0.01, 0.01),
        "temperature": (0.1, 0.5, 0.5),
        "learning_rate": (0.2, 0.1, 0.1),
    },
    "sdgar": {"l2": (0.05, 0.02, 0.02), "temperature": (0.25, 0.5, 1.0), "learning_rate": 0.1},
    "sdsoftmax": _AT_ONE_RATE,
    "item-knn": {"neighbours": (100, 500, 200), "shrink": (20.0, 20.0, 5.0)},
    "ials": {"alpha": (0.003, 0.01, 0.1), "l2": (0.03, 0.003, 0.01)},
    "ease": {"l2": (35.0, 60.0, 600.0)},
}
"""The settings that the search chose; of several values, one for each data set of ``REAL``."""
MOST_EPOCHS = {"irgan": 2}
"""The most epochs of a system, where it is not 300: IRGAN's generator is best early in its game."""

PAPER = {
    "bpr": (0.1165, 0.1255, 0.2605),
    "aobpr": (0.0977, 0.1349, 0.2545),
    "warp": (0.0948, 0.1397, 0.2546),
    "cml": (0.1194, 0.1303, 0.2737),
    "dns": (0.1157, 0.1412, 0.2693),
    "irgan": (0.1174, 0.1443, 0.2858),
    "sa": (0.1269, 0.1490, 0.2764),
    "sdgar": (0.1365, 0.1620, 0.3134),
}
"""The NDCG@50 in the paper's Table 2, on CiteULike, Gowalla and MovieLens-10M."""
REAL = ("citeulike", "gowalla", "movielens")


def settings_of(system: str, data: str) -> dict[str, Any]:
    """Return the settings that the search chose; popular has none, and SD-Softmax one rate."""
    of_system = SETTINGS.get(system, {}) if data in REAL else {}
    return {
        name: value[REAL.index(data)] if isinstance(value, tuple) else value
        for name, value in of_system.items()
    }


TITLES = {one.name: one.paper_name for one in DATASETS.values()}
"""The names of the data sets in the paper's tables."""
PAPER_SIZES = {
    one.name: (one.shape.users, one.shape.items, one.shape.interactions)
    for one in DATASETS.values()
}
"""The numbers of users, items and interactions in the paper's Table 1."""
FOLDERS = {"citeulike": "citeulike-t", "gowalla": "gowalla", "movielens": "movielens-10m"}
"""The folders of real data sets within the folder of data; the names of the data sets serve too."""


def is_real(name: str, data: Path | None) -> bool:
    """Return whether the folder has the data set."""
    return _found(name, data) is not None


@cache
def source(name: str, data: Path | None) -> Split:
    """Return the data set with its published split, or split by the paper's rule, seed 0.

    A folder NAME holds train.parquet and test.parquet, or interactions.parquet. NAME.npz holds
    train_user, train_item, test_user and test_item, and needs NumPy only. Without them the data is
    synthetic, of the same shape.
    """
    found = _found(name, data)
    if found is None:
        train, test = splits.per_user(synthetic(name), seed=0)
        return Split(train, test, "synthetic, split by the paper's rule")
    if found.suffix == ".npz":
        with np.load(found) as file:
            train, test = (
                Interactions.from_arrays(file[f"{part}_user"], file[f"{part}_item"])
                for part in ("train", "test")
            )
        return Split(train, test, f"as split in {found.name}")
    from sdgar.data.readers import read

    if (found.parent / "test.parquet").exists():
        train, test = (read(found.parent / f"{part}.parquet") for part in ("train", "test"))
        return Split(train, test, "the published split")
    train, test = splits.per_user(read(found.parent / "interactions.parquet"), seed=0)
    return Split(train, test, "split by the paper's rule, seed 0")


def _found(name: str, data: Path | None) -> Path | None:
    """Return the first file of a data set in the folder; None without one."""
    files = [f"{name}.npz"]
    for folder in dict.fromkeys((FOLDERS.get(name, name), name)):
        files += [f"{folder}/train.parquet", f"{folder}/interactions.parquet"]
    return next((data / file for file in files if (data / file).exists()), None) if data else None
