"""A plan says of the runs that were measured what was measured, within a fifth.

Rates come from a run of another size than the one that is told of.
"""

from __future__ import annotations

import importlib
import json
from itertools import permutations
from pathlib import Path

import pytest

import sdgar
from sdgar.maths import neighbours
from sdgar.scale.planner import memory
from sdgar.scale.planner import work as count
from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.plan import plan
from sdgar.scale.planner.rates import Rates
from sdgar.scale.planner.workload import Sizes, Workload

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REPORTS = BENCHMARKS / "reports"
WITHIN = 0.2
pytestmark = pytest.mark.skipif(not REPORTS.is_dir(), reason="benchmarks/reports is not there")


def report(name: str) -> dict:
    path = REPORTS / name
    if not path.exists():
        pytest.skip(f"{name} was not measured")
    return json.loads(path.read_text())


@pytest.fixture
def planning(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("plan")


def runs_of_training() -> list[dict]:
    return report("sharded_training.json")["runs"]


def test_shards_take_the_disk_that_was_measured():
    found = [(run, 4) for run in runs_of_training()]
    found += [(run, 12) for run in report("shards.json")["runs"]]
    for run, row_bytes in found:
        rows = run.get("account", {}).get("kept", run["rows"])
        sizes = Sizes(
            users=run["users"], items=run["items"], events=rows, shards=run["shards"], together=8,
            block_users=0, block_rows=0, visit_share=1.0, pairs=0.0, row_bytes=row_bytes,
        )  # fmt: skip
        assert memory.of_shards(sizes) == pytest.approx(run["shard_bytes"], rel=0.02)


def test_weights_between_items_take_the_memory_and_the_seconds_that_were_measured(monkeypatch):
    told = report("memory-on-disk.json")
    wide, narrow, _ = told["runs"]
    system = sdgar.SDSoftmax(dim=8, neighbours=told["neighbours"])
    work = Workload.made_up(system, wide["users"], told["items"], wide["rows"])
    blocks = []
    for run in (wide, narrow):
        # The limit was for everything that the process had allocated.
        limit = int((run["limit_gib"] - run["before_gib"]["anonymous"]) * 2**30)
        monkeypatch.setattr(memory, "room_for_weights", lambda *_, limit=limit: limit)
        held, parts = memory.of_weights(work, Machines(cores=told["threads"]))
        peak = run["peak_gib"]["anonymous"] - run["before_gib"]["anonymous"]
        assert parts > 1 or held / 2**30 == pytest.approx(peak, rel=WITHIN)
        assert held <= limit
        blocks.append(parts)
    assert blocks[0] < blocks[1]
    # More blocks cost the rows of G once more each; what is left are systems.
    each = (narrow["cpu_seconds"] - wide["cpu_seconds"]) / (blocks[1] - blocks[0])
    systems = wide["cpu_seconds"] - (1 + blocks[0]) * each
    rate = count.systems(work) / systems
    assert 1e8 < rate < 1e10
    k, in_memory = told["neighbours"], told["runs"][2]["cpu_seconds"]
    times = 1 - (-told["items"] // (2 * neighbours._ROOM // (k * (k + 1))))
    assert times * each + systems == pytest.approx(in_memory, rel=WITHIN)


def test_training_takes_the_seconds_of_cores_that_rates_of_another_size_say(planning):
    runs = runs_of_training()
    rates = Rates.from_dict(report("plan.json"))
    assert len({run["rows"] for run in runs}) > 1
    for other, run in permutations(runs, 2):
        found = planning.told(run, planning.scaled(rates, other))
        assert found["planned"] == pytest.approx(found["measured"], rel=WITHIN), (
            other["rows"], run["rows"],
        )  # fmt: skip


def test_training_takes_the_memory_that_is_told_before_it_starts(planning):
    runs = runs_of_training()
    assert runs
    rates = Rates.from_dict(report("plan.json"))
    for run in runs:
        found = plan(planning.of_run(run), planning.on_machine(run), rates)
        assert found.bytes_in_memory == pytest.approx(run["train"]["peak_anonymous"], rel=WITHIN), (
            run["rows"]
        )
