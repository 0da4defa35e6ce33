"""The cost of clusters follows from reports, and bytes agree with the check before training."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import sdgar
from sdgar.scale.needs import ram_needs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks/ is not there")


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        yield importlib.import_module("cluster_cost")


def test_ram_is_what_training_is_refused_by(script, tmp_path):
    data = sdgar.Interactions.from_arrays(np.repeat(np.arange(20), 3), np.tile(np.arange(6), 10))
    shards = sdgar.Shards.write(data, tmp_path / "events.shards", 1)
    system = sdgar.SDGAR(dim=8, sampler__states=script.STATES, device="cpu")
    needs = ram_needs(system, shards, 1)
    own = script.ram_of(script.Training(rows=60, users=20, items=6, dim=8))
    assert (own["items"], own["block"]) == (needs.items, needs.block)


def test_rates_of_one_size_give_the_seconds_of_another(script):
    found = script.report_of([], [])
    assert len(found["checks"]) == 2
    for check in found["checks"]:
        assert check["computed"] == pytest.approx(check["measured"], rel=0.2)


def test_the_report_is_what_the_script_computes(script, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cluster_cost.py", "--json", str(tmp_path / "cost.json")])
    script.main()
    ours, kept = (
        json.loads((folder / name).read_text())
        for folder, name in ((tmp_path, "cost.json"), (script.REPORTS, "cluster_cost.json"))
    )
    assert len(ours["plans"]) == len(kept["plans"]) == 6
    for one, other in zip(ours["plans"], kept["plans"], strict=True):
        assert one["hours"] == pytest.approx(other["hours"], rel=1e-6)
        assert one["ram"] == pytest.approx(other["ram"], rel=1e-6)
