"""Accuracy floors on real data; the floors are those the project promises, not fitted to a run."""

from __future__ import annotations

import pytest

from sdgar.systems.bpr import BPR
from sdgar.systems.solver import MostPopular


@pytest.mark.exhaustive
def test_bpr_reaches_its_floor_on_citeulike(published_split):
    train, test = published_split("citeulike-t")
    # A third of the default, which reaches .133.
    model = BPR(epochs=100, early_stopping=False).fit(train)
    reached = model.evaluate(test, ks=(50,)).means()["ndcg@50"]
    popular = MostPopular().fit(train).evaluate(test, ks=(50,)).means()["ndcg@50"]
    assert reached >= 0.110
    assert reached > 3 * popular
