"""A plan counts what training does: its numbers are compared with the code that they are of."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sdgar
from sdgar.data.synthetic import Shape, generate
from sdgar.engines.visits import Visits
from sdgar.errors import DataError
from sdgar.maths.neighbours_on_threads import block_of
from sdgar.scale.planner import memory, traffic
from sdgar.scale.planner import work as count
from sdgar.scale.planner.limits import limits
from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.plan import least_machines, plan
from sdgar.scale.planner.probe import probe
from sdgar.scale.planner.rates import PARTS, Rates, operations
from sdgar.scale.planner.workload import Sizes, Workload
from sdgar.scale.shards import Shards
from sdgar.scale.shards.blocks import Blocks

RATES = Rates(
    start=7e9, classes=9e8, users=2e9, prepare=9e8, visits=9e8, follow=3e8, pairs=1e8, systems=1e9,
    choose=2e10, measure=2e10,
)  # fmt: skip
LARGE = Workload.made_up(sdgar.SDSoftmax(dim=64), 10**9, 10**8, 10**11)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    data = generate(Shape(users=90, items=40, interactions=900, concentration=0.15), seed=3)
    return Shards.write(data, tmp_path_factory.mktemp("data") / "shards", 1)


@settings(max_examples=20, deadline=None)
@given(mean=st.floats(1.0, 60.0), positives=st.integers(1, 6))
def test_made_up_histories_have_the_visits_and_pairs_of_a_geometric_distribution(mean, positives):
    users = 1_000_000
    sizes = Sizes.made_up(users, 10, round(mean * users), positives=positives)
    n = np.arange(1, 5000)
    p = (1 - 1 / (sizes.events / users)) ** (n - 1) / (sizes.events / users)
    visits = (p * np.ceil(n / positives)).sum() * users / sizes.events
    assert sizes.visit_share == pytest.approx(visits, rel=1e-6)
    assert sizes.pairs == pytest.approx((p * n**2.0).sum() * users, rel=1e-6)


def test_sizes_of_shards_have_the_visits_and_pairs_that_are_there(shards):
    work = Workload.of(sdgar.SDSoftmax(), shards, 1)
    data = Blocks(shards, 1)[0]
    visits = Visits(data, work.recipe.positives, 0, torch.device("cpu"))
    assert work.visits == pytest.approx(len(visits))
    assert work.sizes.pairs == (np.diff(data.indptr_U1) ** 2).sum()
    assert (work.sizes.block_users, work.sizes.block_rows) == (90, len(data))
    assert work.entries == len(data) + work.recipe.negatives * len(visits)


def test_a_recipe_has_what_rules_decide_and_how_often_training_runs():
    large = LARGE.recipe
    assert (large.positives, large.batch, large.epochs, large.neighbours) == (4, 4096, 8, 200)
    assert (large.passes, large.all_epochs, large.refits, large.looks) == (1, 8, 0, 2)
    stopping = Workload.made_up(sdgar.SDGAR(), 1000, 100, 20_000).recipe
    assert (stopping.passes, stopping.neighbours, stopping.pretrain) == (2, 0, 0)
    assert stopping.refits == 2 * -(-stopping.epochs // stopping.refit_every)


def test_shards_on_disk_have_the_bytes_that_are_told(tmp_path):
    random = np.random.default_rng(0)
    users, items = random.integers(0, 3000, 40_000), random.integers(0, 500, 40_000)
    times = random.integers(0, 10**9, 40_000)
    data = sdgar.Interactions.from_arrays(users, items, time=times, duplicates="last")
    made = Shards.write(data, tmp_path / "s", 1)
    told = memory.of_shards(Workload.of(sdgar.BPR(), made, 1).sizes)
    there = sum(path.stat().st_size for path in made.folder.rglob("*.npy"))
    assert told == pytest.approx(there, rel=0.02)


def test_blocks_of_systems_are_those_that_are_solved_at_once():
    work = Workload.made_up(sdgar.SDSoftmax(dim=8, neighbours=50), 10**6, 10**6, 10**7)
    machines = Machines(memory=4 << 30, cores=torch.get_num_threads())
    told, blocks = memory.of_weights(work, machines)
    limit = memory.weights_room(work, machines)
    assert blocks == -(-work.sizes.items // block_of(limit, work.sizes.items, 50))
    assert told <= limit


def test_copied_items_are_moved_by_every_machine_and_shared_items_by_one():
    one, four = Machines(count=1), Machines(count=4)
    alone = plan(LARGE, one, RATES)
    copied, shared = (plan(LARGE, four, RATES, shared=on) for on in (False, True))
    assert copied.epoch["scoring"] == pytest.approx(alone.epoch["scoring"] / 4)
    assert copied.epoch["moving items"] == alone.epoch["moving items"]
    assert shared.epoch["moving items"] == pytest.approx(alone.epoch["moving items"] / 4)
    assert copied.memory["items: vectors"] == 4 * shared.memory["items: vectors"]
    assert alone.sent_a_step == alone.epoch["network"] == alone.epoch["waiting"] == 0
    # Each machine has a quarter of 1,024 visits, and tells three others 4 D + 8 (P + N) + 16 bytes.
    assert copied.sent_a_step == 3 * 256 * (4 * 64 + 8 * (4 + 32) + 16)
    assert copied.epoch["network"] == pytest.approx(copied.sent_an_epoch / four.network)


def test_factors_of_shared_items_do_not_grow_with_the_number_of_machines():
    large = replace(LARGE, recipe=replace(LARGE.recipe, batch=1 << 22))

    def all_bytes(n: int, *, shared: bool) -> float:
        return n * traffic.sent_a_step(large, Machines(count=n), shared=shared)

    assert all_bytes(1024, shared=True) < 1.1 * all_bytes(256, shared=True)
    assert all_bytes(1024, shared=False) > 3.9 * all_bytes(256, shared=False)


def test_the_seconds_of_a_plan_are_operations_over_rates():
    found = plan(LARGE, Machines(cores=3), RATES)
    done = operations(LARGE, found.blocks)
    scored = count.score(LARGE) / (RATES.visits * 3)
    assert found.epoch["scoring"] * LARGE.recipe.epochs == pytest.approx(scored)
    weights = done["pairs"] / RATES.pairs + done["systems"] / RATES.systems
    assert found.around["memory of histories"] * 3 == pytest.approx(
        weights + done["choose"] / RATES.choose
    )
    assert found.seconds == pytest.approx(8 * found.epoch_seconds + sum(found.around.values()))
    assert found.cost(3600) == 0
    assert replace(found, machines=Machines(count=5, price=2.0)).cost(1800) == 5


def test_the_fewest_machines_with_room_are_found():
    small = Machines(memory=64 << 30, cores=8)
    no_memory = Workload.made_up(sdgar.SDSoftmax(dim=64, memory=0), 10**9, 10**8, 10**11)
    found = least_machines(no_memory, small, RATES, shared=True)
    assert found.fits
    fewer = replace(small, count=found.machines.count - 1)
    assert not plan(no_memory, fewer, RATES, shared=True).fits
    assert least_machines(no_memory, small, RATES, shared=False) is None
    steps = replace(no_memory, recipe=replace(no_memory.recipe, batch=1 << 20))
    quick = least_machines(steps, Machines(), RATES, shared=True, hours=4.0)
    assert quick.epoch_seconds <= 4 * 3600
    fewer = replace(Machines(), count=quick.machines.count - 1)
    assert plan(steps, fewer, RATES, shared=True).epoch_seconds > 4 * 3600
    assert least_machines(steps, Machines(), RATES, shared=True, hours=1e-3) is None


def test_a_limit_is_where_it_begins():
    machines = Machines()

    def at(growth: float) -> Workload:
        sizes = (max(1, round(growth * n)) for n in (10**9, 10**8, 10**11))
        return Workload.made_up(sdgar.SDSoftmax(dim=64), *sizes)

    ends = limits(at, machines, shared=False)
    assert [e.growth for e in ends] == sorted(e.growth for e in ends)
    items = next(e for e in ends if e.what.startswith("Items"))
    for growth, over in ((items.growth * 1.02, True), (items.growth / 1.02, False)):
        held = sum(memory.in_memory(at(growth), machines, shared=False).values())
        assert (held > machines.memory) == over


def test_rates_that_are_scaled_to_a_run_take_its_seconds():
    took = {part: 10.0 + number for number, part in enumerate(PARTS)}
    scaled = RATES.scaled_to(LARGE, 3, took)
    done = operations(LARGE, 3)
    for part, kinds in PARTS.items():
        assert sum(done[k] / scaled.of(k) for k in kinds) == pytest.approx(took[part])
    assert scaled.pairs / scaled.systems == pytest.approx(RATES.pairs / RATES.systems)


def test_rates_come_back_from_json_and_wrong_ones_are_named():
    told = json.loads(json.dumps({"rates": RATES.as_dict()}))
    assert Rates.from_dict(told) == RATES
    for wrong in (0, -1.0, "fast", True, None, float("inf")):
        with pytest.raises(DataError, match="no rates: visits must be positive"):
            Rates.from_dict({**RATES.as_dict(), "visits": wrong})
    with pytest.raises(DataError, match="no rates: start"):
        Rates.from_dict([1, 2])


@pytest.mark.parametrize("system", [sdgar.SDSoftmax(dim=4, states=3), sdgar.BPR(dim=4)])
def test_a_probe_measures_every_rate_and_leaves_the_threads_as_they_were(system):
    sizes = Workload.made_up(system, 60, 40, 300).sizes
    threads = torch.get_num_threads()
    found = probe(system, sizes).as_dict()
    assert torch.get_num_threads() == threads
    assert all(0 < rate < 1e13 for rate in found.values())
    assert found["visits"] != found["measure"]
