"""The paper's five data sets: real if a folder has them, else synthetic of the same shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import synthetic
from sdgar.lab.datasets.catalogue import DATASETS

_BY_NAME = {dataset.short_name: dataset for dataset in DATASETS.values()}
FOLDERS = {
    "citeulike": ("citeulike-t", "citeulike"),
    "gowalla": ("gowalla",),
    "movielens": ("movielens-10m", "movielens"),
    "amazon": ("amazon",),
    "echonest": ("echonest",),
}
"""The names that the folder of each data set may have within the folder of data."""
TITLES = {name: dataset.paper_name for name, dataset in _BY_NAME.items()}
"""The names of the data sets in the paper's tables."""
PAPER_SIZES = {
    name: (dataset.paper_users, dataset.paper_items, dataset.paper_ratings)
    for name, dataset in _BY_NAME.items()
}
"""The numbers of users, items and interactions in the paper's Table 1."""


@dataclass(frozen=True, slots=True)
class Source:
    """Training and test rows, and where they come from."""

    name: str
    """The name of the data set."""
    train: Interactions
    """The training rows."""
    test: Interactions
    """The test rows."""
    real: bool
    """Whether the data is real; if not, it is synthetic, of the same shape."""
    how: str
    """The rule by which test rows were split off."""

    @property
    def title(self) -> str:
        """The name of the data set for people."""
        return TITLES[self.name] + ("" if self.real else " (synthetic)")


def is_real(name: str, data: Path | None) -> bool:
    """Return whether the folder has the data set."""
    return _arrays(name, data) is not None or _folder(name, data) is not None


@cache
def source(name: str, data: Path | None) -> Source:
    """Return the data set with its published split, or split by the paper's rule, seed 0.

    NAME.npz holds train_user, train_item, test_user and test_item, and needs NumPy only.
    """
    arrays = _arrays(name, data)
    if arrays is not None:
        with np.load(arrays) as file:
            train, test = (
                Interactions.from_arrays(file[f"{part}_user"], file[f"{part}_item"])
                for part in ("train", "test")
            )
        return Source(name, train, test, real=True, how=f"as split in {arrays.name}")
    folder = _folder(name, data)
    if folder is None:
        train, test = splits.per_user(synthetic(name), seed=0)
        return Source(name, train, test, real=False, how="synthetic, split by the paper's rule")
    from sdgar.data.readers import read

    if (folder / "test.parquet").exists():
        train, test = (read(folder / f"{part}.parquet") for part in ("train", "test"))
        return Source(name, train, test, real=True, how="the published split")
    train, test = splits.per_user(read(folder / "interactions.parquet"), seed=0)
    return Source(name, train, test, real=True, how="split by the paper's rule, seed 0")


def _arrays(name: str, data: Path | None) -> Path | None:
    return data / f"{name}.npz" if data is not None and (data / f"{name}.npz").exists() else None


def _folder(name: str, data: Path | None) -> Path | None:
    for folder in FOLDERS[name]:
        for file in ("train.parquet", "interactions.parquet"):
            if data is not None and (data / folder / file).exists():
                return data / folder
    return None
