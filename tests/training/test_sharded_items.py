"""Workers that have a part of the items each: the bytes of one process, and no more than a part."""

import json
from dataclasses import replace

import pytest
import torch

import sdgar
from sdgar.contracts import NotCovered
from sdgar.errors import ResourceError, UsageError
from sdgar.samplers import sampled_sums
from sdgar.scale.owned_blocks import OwnedBlockEngine
from sdgar.scale.run import bytes_needed, layout_of, run_shards
from sdgar.scale.sharded import OnShards
from sdgar.scale.workers import ALONE, Workers

from . import test_workers
from .test_workers import SMALL, TOLD, bytes_of, task_of
from .workers import CHUNK, run_together

shards, by_one = test_workers.shards, test_workers.by_one
APART = TOLD | {"items": "sharded"}
exhaustive = pytest.mark.exhaustive


def task_apart(shards, out, system, **more):
    return replace(task_of(shards, out, system, **more), told=APART)


@pytest.mark.parametrize(
    ("system", "count"),
    [
        ("SDSoftmax", 3),
        *(pytest.param(s, n, marks=exhaustive) for s in SMALL for n in (2, 4, 8)),
    ],
)
def test_sharded_items_give_the_bytes_of_one_process(shards, by_one, system, count, tmp_path):
    """What is sent in steps is what is said, and no table of all items is there meanwhile."""
    said = run_together(task_apart(shards, tmp_path / "run", system, counts=True), count)
    assert all(text.startswith("{") for text in said.values()), said
    found = [json.loads(text) for text in said.values()]
    assert bytes_of(tmp_path / "run") == by_one(system)
    assert found[0]["steps"] > 0
    assert sum(one["sent"] for one in found) == sum(one["expected"] for one in found)
    assert {one["most"] for one in found} <= {
        len(range(n, shards.n_items, count)) for n in range(count)
    }


@exhaustive
@pytest.mark.parametrize("then", ["sharded", "replicated"])
def test_a_run_with_sharded_items_goes_on_by_others(shards, by_one, then, tmp_path):
    begun = task_apart(shards, tmp_path / "run", "SDSoftmax", stop_after=2)
    said = run_together(begun, 3)
    assert said[0].startswith("stopped: stopped by SIGTERM"), said
    told = TOLD | {"items": then}
    run_together(replace(begun, stop_after=None, resume=True, told=told), 2)
    assert bytes_of(tmp_path / "run") == by_one("SDSoftmax")


@exhaustive
def test_a_run_with_replicated_items_goes_on_with_sharded_ones(shards, by_one, tmp_path):
    begun = task_of(shards, tmp_path / "run", "SDSoftmax", stop_after=3)
    run_together(begun, 2)
    run_together(replace(begun, stop_after=None, resume=True, told=APART), 3)
    assert bytes_of(tmp_path / "run") == by_one("SDSoftmax")


def test_a_worker_that_is_killed_ends_all_and_one_process_goes_on(
    shards, by_one, tmp_path, monkeypatch
):
    begun = task_apart(shards, tmp_path / "run", "SDSoftmax", killed_at={1: 5})
    said = run_together(begun, 3)
    assert said.keys() == {0, 2}
    assert said[0].startswith("worker_lost: worker 0 cannot go on: another worker was killed")
    monkeypatch.setattr(sampled_sums, "_CHUNK", CHUNK)
    model = sdgar.SDSoftmax(**SMALL["SDSoftmax"])
    run_shards(model, shards, out=begun.out, resume=True, **TOLD)
    assert bytes_of(tmp_path / "run") == by_one("SDSoftmax")


@exhaustive
def test_an_error_of_one_worker_is_told_by_the_first(shards, tmp_path):
    said = run_together(task_apart(shards, tmp_path / "run", "BPR", broken=1), 2)
    assert said[0].startswith("worker_lost: worker 0 cannot go on: worker 1: the disk is full.")


def test_items_are_sharded_where_they_do_not_fit(shards):
    model, together = sdgar.SDSoftmax(**SMALL["SDSoftmax"]), TOLD["together"]
    items, block = bytes_needed(model, shards, together)
    two = Workers(0, (0, 1))

    def layout(asked, memory, workers=two):
        return layout_of(asked, model, shards, together, memory, workers)

    assert layout("auto", items + block) == "replicated"
    assert layout("auto", items + block - 1) == "sharded"
    assert layout("sharded", items + block) == "sharded"
    with pytest.raises(ResourceError, match=r"for a part of .* items .* --memory allows"):
        layout("auto", items // 2 + block - 1)
    for asked, workers in (("replicated", two), ("auto", ALONE)):
        with pytest.raises(ResourceError, match="shard the items among more workers"):
            layout(asked, items - 1, workers)
    with pytest.raises(UsageError, match="among several workers only, and there is one"):
        layout("sharded", items + block, ALONE)
    with pytest.raises(UsageError, match="items"):
        layout("shared", items + block)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (sdgar.SDSoftmax(proposal="popularity"), "for the sampler Popularity"),
        (sdgar.WARP(), "for the sampler FirstViolation"),
        (sdgar.SDGAR(calibration="relative"), "calibration=relative"),
    ],
)
def test_parts_that_need_all_items_at_once_are_refused(model, why):
    data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    answer = OwnedBlockEngine.covers(model.compose(data, seed=0), torch.device("cpu"))
    assert isinstance(answer, NotCovered)
    assert why in answer.why


def test_options_that_do_not_go_with_sharded_items_are_refused(shards, tmp_path):
    how = OnShards(items="sharded", work=tmp_path)
    with pytest.raises(UsageError, match="sharded among several workers, and there is one"):
        sdgar.BPR(dim=2, epochs=1).fit_shards(shards, how=how)
