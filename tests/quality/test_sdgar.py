"""The paper's system reaches its floor on the paper's own split."""

from __future__ import annotations

import pytest

from sdgar.systems.sdgar import SDGAR
from sdgar.training import protocols


@pytest.mark.slow
def test_sdgar_reaches_its_floor_on_citeulike_by_the_papers_protocol(published_split, monkeypatch):
    monkeypatch.setattr(protocols, "PAPER_EPOCHS", 50)
    monkeypatch.setattr(protocols, "PAPER_EVERY", 25)  # the best of fewer looks is no better
    train, test = published_split("citeulike-t")
    model = SDGAR(l2=0.05).fit_as_the_paper(train, test)
    assert model.evaluate(test, ks=(50,)).means()["ndcg@50"] >= 0.133
    last = model.trained_.log[-1][1]
    assert last.health["kl"] >= 0
    assert 1 <= last.effective <= 5
