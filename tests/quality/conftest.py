from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from sdgar.data.interactions import Interactions

Parts = tuple[Interactions, Interactions]


@pytest.fixture
def published_split(shared_data) -> Callable[[str], Parts]:
    """Train and test of a data set that comes with a split."""

    def read(file: Path) -> Interactions:
        frame = pl.read_parquet(file)
        return Interactions.from_arrays(frame["user"].to_numpy(), frame["item"].to_numpy())

    def parts(name: str) -> Parts:
        folder = shared_data / name
        return read(folder / "train.parquet"), read(folder / "test.parquet")

    return parts
