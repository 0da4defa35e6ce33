"""Item weights from shards are bit-identical to weights solved in RAM, within any limit."""

from __future__ import annotations

import errno
import os
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError, ResourceError, UsageError
from sdgar.machine import cores
from sdgar.maths.neighbours import Neighbourhoods, least_memory
from sdgar.maths.rows import Rows
from sdgar.models.item_weights import LocalItemWeights
from sdgar.scale import item_weights as from_shards
from sdgar.scale.item_weights import item_weights_from_shards
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import ShardBlocks, Without
from sdgar.storage.sealed import DamagedError

CPU = torch.device("cpu")
RULE = Neighbourhoods(k=4, l2=2.0, shrink=1.5, beta=0.5)
MUCH = 1 << 30


def some(users: int, items: int, share: float, seed: int) -> Interactions:
    """Rows of random users and items, with weights; every item has a row."""
    rng = np.random.default_rng(seed)
    x_UI = rng.random((users, items)) < share
    x_UI[rng.integers(users, size=items), np.arange(items)] = True
    user_E, item_E = np.nonzero(x_UI)
    weight_E = rng.uniform(0.5, 2, len(user_E)).astype(np.float32)
    return Interactions.from_arrays(user_E, item_E, weight=weight_E)


def in_memory(shards: Shards) -> Interactions:
    """All rows, with the users of one shard after the other."""
    return ShardBlocks(shards, shards.n_shards)[0]


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Shards:
    folder = tmp_path_factory.mktemp("rows") / "shards"
    return Shards.write(some(60, 30, 0.2, 0), folder, 3)


def same(found: LocalItemWeights, wanted: LocalItemWeights) -> None:
    for one, other in (
        (found.weight_II, wanted.weight_II),
        (Rows(*arrays_of(found)), Rows(*arrays_of(wanted))),
    ):
        assert_array_equal(one.start_R1, other.start_R1)
        assert_array_equal(one.column_E, other.column_E)
        assert_array_equal(one.weights(), other.weights())


def arrays_of(model: LocalItemWeights) -> tuple[np.ndarray, np.ndarray]:
    return model.history.indptr_U1, model.history.items_E


@settings(max_examples=30)
@given(
    st.tuples(st.integers(1, 25), st.integers(2, 20), st.sampled_from([0.1, 0.4])),
    st.tuples(st.integers(0, 99), st.integers(1, 4), st.integers(1, 6)),
    st.tuples(st.integers(0, 3000), st.integers(1, 2), st.sampled_from([0, 0.5])),
)
def test_any_limit_gives_the_bytes_of_the_solution_in_memory(tmp_path_factory, shape, how, limits):
    (seed, n_shards, k), (more, threads, beta) = how, limits
    folder = tmp_path_factory.mktemp("rows")
    shards = Shards.write(some(*shape, seed), folder / "shards", n_shards)
    rule = Neighbourhoods(k=k, l2=0.5, shrink=1.0, beta=beta)
    wanted = LocalItemWeights.solved(in_memory(shards), rule, device=CPU)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cores, "threads", lambda: threads)
        patch.setattr("sdgar.machine.threads._WORTH_THREADS", 0)
        patch.setattr("sdgar.maths.neighbours._LEAST", 1)
        memory = least_memory(shards.n_items, k) + more
        found = item_weights_from_shards(shards, rule, work=folder, memory=memory)
    same(found, wanted)


def test_new_weights_replace_those_of_other_rows(shards, tmp_path):
    rest = Without(shards, np.array([0, 7]))
    for rows, rule in ((shards, RULE), (rest, RULE), (rest, replace(RULE, l2=3.0)), (shards, RULE)):
        found = item_weights_from_shards(rows, rule, work=tmp_path, memory=MUCH)
        same(found, LocalItemWeights.solved(in_memory(rows), rule, device=CPU))


def test_the_model_scores_and_is_saved_as_one_in_memory(shards, tmp_path):
    found = item_weights_from_shards(shards, RULE, work=tmp_path, memory=MUCH)
    wanted = LocalItemWeights.solved(in_memory(shards), RULE, device=CPU)
    users_B = np.array([5, 0, 59, 5])
    assert_array_equal(found.score_all(users_B), wanted.score_all(users_B))
    assert_array_equal(found.only(users_B).score_all(np.arange(4)), wanted.score_all(users_B))
    pairs = users_B, np.array([0, 29, 3, 4])
    assert_array_equal(found.score_pairs(*pairs), wanted.score_pairs(*pairs))
    saved = wanted.to_saved()
    assert found.to_saved().keys() == saved.keys()
    for name, tensor in found.to_saved().items():
        assert tensor.dtype == saved[name].dtype
        assert (tensor == saved[name]).all()


def test_what_is_allocated_stays_within_the_limit(tmp_path):
    data = some(300, 4_000, 0.005, 1)
    shards = Shards.write(data, tmp_path / "shards", 2)
    rule = Neighbourhoods(k=30, l2=1.0, shrink=1.0, beta=0.5)
    memory = least_memory(4_000, 30) + (1 << 20)
    item_weights_from_shards(shards, rule, work=tmp_path / "compiled", memory=MUCH)
    tracemalloc.start()
    try:
        item_weights_from_shards(shards, rule, work=tmp_path / "few", memory=memory)
        few = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        item_weights_from_shards(shards, rule, work=tmp_path / "many", memory=MUCH)
        many = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert few < memory < many


def test_too_little_memory_is_refused_before_anything_is_written(shards, tmp_path):
    least = least_memory(30, 4)
    with pytest.raises(ResourceError, match=f"at least {least:,} bytes.*{least - 1:,} bytes are"):
        item_weights_from_shards(shards, RULE, work=tmp_path / "work", memory=least - 1)
    assert not (tmp_path / "work").exists()


def test_an_interruption_leaves_what_was_there_before(shards, tmp_path, monkeypatch):
    before = item_weights_from_shards(shards, RULE, work=tmp_path, memory=MUCH)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.npy")}
    assert len(files) == 5

    def solve(stop: str | None) -> list[str]:
        steps = []

        def reported(name, done, total):
            steps.append(name)
            if name == stop:
                raise KeyboardInterrupt

        monkeypatch.setattr(
            from_shards.shown_progress, "working", lambda *_, **how: nullcontext(reported)
        )
        item_weights_from_shards(shards, replace(RULE, l2=9.0), work=tmp_path, memory=MUCH)
        return steps

    for stop in ("rows", "users of items", "neighbours", "weights", "weights by item"):
        with pytest.raises(KeyboardInterrupt):
            solve(stop)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.npy")} == files
        assert [path.name for path in tmp_path.iterdir()] == ["item-weights"]
    solve(None)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.npy")} != files
    same(before, LocalItemWeights.solved(in_memory(shards), RULE, device=CPU))


def test_a_folder_with_something_else_is_left_alone(shards, tmp_path):
    (tmp_path / "item-weights").mkdir()
    own = tmp_path / "item-weights" / "thesis.txt"
    own.write_text("mine")
    with pytest.raises(
        UsageError, match=r"holds 'thesis\.txt', which is not part of the item weights of sdgar"
    ):
        item_weights_from_shards(shards, RULE, work=tmp_path, memory=MUCH)
    assert own.read_text() == "mine"


def test_a_full_disk_is_reported_before_a_page_is_missing(shards, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ResourceError, match="the disk is full"):
        item_weights_from_shards(shards, RULE, work=tmp_path, memory=MUCH)
    assert list(tmp_path.iterdir()) == []


def test_a_shard_with_an_item_that_is_not_there_is_damaged(tmp_path):
    shards = Shards.write(some(20, 6, 0.3, 0), tmp_path / "shards", 1)
    np.save(shards[0].folder / "items.npy", shards[0].items_E + np.int32(1))
    with pytest.raises(DamagedError, match="outside the catalogue"):
        item_weights_from_shards(shards, RULE, work=tmp_path, memory=MUCH)


def test_a_system_without_a_solution_says_what_to_raise(tmp_path):
    data = Interactions.from_arrays([1, 1, 1], [1, 2, 3])
    shards = Shards.write(data, tmp_path / "shards", 1)
    rule = Neighbourhoods(k=2, l2=0.0, shrink=0.0, beta=0.0)
    with pytest.raises(NumericalError, match="Use a larger l2"):
        item_weights_from_shards(shards, rule, work=tmp_path / "work", memory=MUCH)
    assert list((tmp_path / "work").iterdir()) == []


def test_other_things_than_shards_and_bytes_are_refused(shards, tmp_path):
    with pytest.raises(UsageError, match="shards must be Shards"):
        item_weights_from_shards(sdgar.synthetic("demo"), RULE, work=tmp_path, memory=MUCH)
    with pytest.raises(UsageError, match="memory must be int"):
        item_weights_from_shards(shards, RULE, work=tmp_path, memory="4GiB")
