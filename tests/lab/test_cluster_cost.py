"""The cost of clusters follows from reports, and bytes agree with the check before training."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
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


@pytest.fixture
def work(script):
    return script.Training(rows=8.0, users=4.0, items=3.0, dim=2, epochs=2, batch=4)


def test_hours_and_cost_follow_from_rates_and_machines(script, work):
    rates = dict.fromkeys(script.operations(work, script.Machines()), 1.0)
    one = script.Machines(cores=1, price=2.0, disk=1e30)
    alone, cores = (script.cost(work, replace(one, cores=n), rates) for n in (1, 4))
    scores = work.entries * (4 * 2 + 2 * 64) / 3600
    assert alone["hours"]["scores"] == pytest.approx(scores)
    assert cores["hours"]["scores"] == pytest.approx(scores / 4)
    assert cores["hours"]["rows"] == alone["hours"]["rows"]  # by one thread
    assert alone["hours"]["network"] == 0
    assert alone["cost"] == pytest.approx(2 * alone["total_hours"])
    two = script.cost(work, replace(one, count=2, network=1.0, latency=0.0), rates)
    assert two["hours"]["scores"] == pytest.approx(scores / 2)
    assert two["hours"]["items"] == alone["hours"]["items"]
    assert two["hours"]["network"] == pytest.approx(3.5 / 2 * 4 * (2 + 2 * 36 + 4) / 3600)
    assert two["epoch_cost"] == pytest.approx(2 * 2 * two["epoch_hours"])
    assert not script.cost(work, replace(one, ram=10.0), rates)["fits"]


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
