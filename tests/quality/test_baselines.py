"""The baselines reach 96 % of the paper's own numbers for them on its own split, with few epochs.

IRGAN has no fused engine and would take minutes here.
"""

from __future__ import annotations

import pytest

from sdgar.systems.names import SYSTEMS

FLOORS = {
    "aobpr": (0.96 * 0.0977, {"epochs": 50, "l2": 0.05, "rank_scale": 0.02}),
    "warp": (0.96 * 0.0948, {"epochs": 50, "l2": 2.0, "max_tries": 30}),
    "cml": (0.96 * 0.1194, {"epochs": 20}),
    "dns": (0.96 * 0.1157, {"epochs": 20, "l2": 0.1, "candidates": 10}),
    "sa": (0.96 * 0.1269, {"epochs": 50, "l2": 0.05, "temperature": 0.25, "learning_rate": 0.2}),
}
"""The paper's NDCG@50 on CiteULike, and settings that were chosen on validation rows."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FLOORS)
def test_a_baseline_reaches_its_floor_on_citeulike(published_split, name):
    floor, settings = FLOORS[name]
    train, test = published_split("citeulike-t")
    model = SYSTEMS[name](early_stopping=False, **settings).fit(train)
    assert model.evaluate(test, ks=(50,)).means()["ndcg@50"] >= floor
