"""The paper's system reaches its floor on the paper's own split."""

from __future__ import annotations

import pytest

from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
from sdgar.training import fitting
from sdgar.training.fitting import Fit


@pytest.mark.slow
def test_sdgar_reaches_its_floor_on_citeulike_by_the_papers_protocol(published_split, monkeypatch):
    monkeypatch.setattr(fitting, "PAPER_EPOCHS", 50)
    monkeypatch.setattr(fitting, "PAPER_EVERY", 25)  # the best of fewer looks is no better
    train, test = published_split("citeulike-t")
    model = recipe_of(SDGAR(l2=0.05)).fit(Fit(rows=train, test=test, protocol="paper"))
    assert model.evaluate(test, ks=(50,)).means()["ndcg@50"] >= 0.133
    last = recipe_of(model).trained.log[-1][1]
    assert last.health["kl"] >= 0
    assert 1 <= last.effective <= 5
