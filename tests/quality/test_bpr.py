"""Accuracy floors on real data; the floors are those the project promises, not fitted to a run."""

from __future__ import annotations

import polars as pl
import pytest

from sdgar.data.interactions import Interactions
from sdgar.estimators import BPR, MostPopular


def split_of(folder) -> tuple[Interactions, Interactions]:
    parts = [pl.read_parquet(folder / f"{name}.parquet") for name in ("train", "test")]
    train, test = (
        Interactions.from_arrays(p["user"].to_numpy(), p["item"].to_numpy()) for p in parts
    )
    return train, test


@pytest.mark.slow
def test_bpr_reaches_its_floor_on_citeulike(shared_data):
    train, test = split_of(shared_data / "citeulike-t")
    model = BPR(epochs=60).fit(train)
    reached = model.evaluate(test, ks=(50,)).means()["ndcg@50"]
    popular = MostPopular().fit(train).evaluate(test, ks=(50,)).means()["ndcg@50"]
    assert reached >= 0.110
    assert reached > 3 * popular
