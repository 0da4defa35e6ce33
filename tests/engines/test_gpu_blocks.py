"""Epochs over blocks of users by the fused engine of the GPU, in Triton's interpreter or on one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch

import sdgar
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.scale.block_engine import BlockEngine
from sdgar.scale.block_system import with_new_users
from sdgar.scale.conveyor import SLOTS, Conveyor
from sdgar.scale.gpu_block_engine import GpuBlockEngine
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import ShardBlocks, Without
from sdgar.scale.users import UsersOnDisk, UserStore
from sdgar.systems.recipe import recipe_of

from ..training.workers import run_whole_and_resumed
from ..triton_interpreter import INTERPRETED, require_triton

DEVICE = require_triton()
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
CPU = torch.device("cpu")
SYSTEMS = {
    "sdsoftmax": sdgar.SDSoftmax(
        dim=3, sampler__states=2, epochs=4, sampler__samples=2, n_negatives=2
    ),
    "bpr": sdgar.BPR(dim=3),
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """About 350 rows with weights in three shards, two of which are a block."""
    users, items = np.nonzero(np.random.default_rng(1).random((36, 60)) < 1 / 6)
    weight = 1 + np.arange(len(users)) % 3
    data = sdgar.Interactions.from_arrays(users, items, weight=weight)
    return Shards.write(data, tmp_path_factory.mktemp("data") / "shards", 3)


def engine_of(name, shards, users=None, together=2, kind=GpuBlockEngine):
    blocks = ShardBlocks(shards, together)
    first = blocks.rows(0, 1)
    device = DEVICE if kind is GpuBlockEngine else CPU
    system = recipe_of(SYSTEMS[name]).compose(first, seed=3, device=device)
    users = UserStore() if users is None else users
    return kind(system, blocks, first=first, users=users, seed=3, device=device)


def trained(engine, epochs=2):
    """Run epochs; the generator learns positives in the first, and follows scores in the second."""
    for epoch in range(1, epochs + 1):
        engine.refit(epoch)
        stats = engine.run_epoch(epoch)
    return engine, stats


def tensors_of(engine):
    state = {n: t.cpu() for n, t in engine.state().items() if n != "optimizer.users"}
    return state | engine.learned().tensors()


def assert_same(one, two):
    assert one.keys() == two.keys()
    for name, table in one.items():
        assert torch.equal(table, two[name]), name


@pytest.fixture(scope="module")
def halfway(shards):
    """An engine after one of two epochs, with users who wait in memory: its state and its users."""
    engine, _ = trained(engine_of("sdsoftmax", shards), epochs=1)
    state = {name: table.cpu() for name, table in engine.state().items()}
    kinds = [(shard, kind) for shard in range(3) for kind in ("vectors", "states")]
    return engine, state, {key: deepcopy(engine._users.get(*key)) for key in kinds}


def second(engine):
    """Run the second epoch, in which the generator follows the scores."""
    engine.refit(2)
    engine.run_epoch(2)
    return tensors_of(engine)


@pytest.fixture(scope="module")
def unbroken(halfway):
    """The tensors after both epochs."""
    return second(halfway[0])


def go_on_from(engine, other):
    """Bring an engine to where one of the CPU is, which names the same tables in another way."""
    state = other.state()
    columns = {"item_ICD": "item_ID", "bias_IC": "bias_I"}
    sums = {"sum_I": "second_RD", "sum_bias_I": "second_I"}
    for old, new in columns.items():
        state[f"optimizer.{new}"] = state[f"optimizer.{old}"][:, 0]
    for old, new in sums.items():
        state[f"optimizer.{new}"] = state[f"optimizer.{old}"]
    engine.load_state(state)
    for shard in range(3):
        vectors, states = (other._users.get(shard, kind) for kind in ("vectors", "states"))
        moved = {"user_UD": vectors["user_UCD"][:, 0], "second_RD": vectors["sum_U"]}
        engine._users.put(shard, "vectors", moved)
        if states is not None:
            engine._users.put(shard, "states", states)


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_epoch_is_that_of_the_cpu_from_the_same_state(name, shards):
    expected, _ = trained(engine_of(name, shards, kind=BlockEngine), epochs=1)
    engine = engine_of(name, shards)
    go_on_from(engine, expected)
    own, stats = engine.run_epoch(2), expected.run_epoch(2)
    tensors = engine.learned().tensors()
    for one, table in expected.learned().tensors().items():
        torch.testing.assert_close(tensors[one], table, rtol=1e-4, atol=1e-5)
    assert own.loss == pytest.approx(stats.loss, rel=1e-5)
    assert own.positives == stats.positives == len(shards)
    assert engine.state()["optimizer.steps"] == expected.state()["optimizer.steps"]


@pytest.mark.skipif(not INTERPRETED, reason="a GPU rounds the start of vectors in another way")
def test_start_and_refits_are_those_of_the_cpu(shards, unbroken):
    expected, _ = trained(engine_of("sdsoftmax", shards, kind=BlockEngine))
    for one, table in expected.learned().tensors().items():
        torch.testing.assert_close(unbroken[one], table, rtol=1e-4, atol=1e-5)


def test_users_who_wait_on_the_device_change_no_byte(shards, halfway, unbroken):
    _, state, users = halfway
    engine = engine_of("sdsoftmax", shards, UserStore(on_device=True))
    engine.load_state(state)
    for key, arrays in users.items():
        engine._users.keep(*key, {n: torch.from_numpy(a).to(DEVICE) for n, a in arrays.items()})
    assert_same(second(engine), unbroken)


def test_users_in_files_go_on_from_a_state_to_the_same_bytes(shards, halfway, unbroken, tmp_path):
    _, state, users = halfway
    files = UsersOnDisk(tmp_path, 3)
    for key, arrays in users.items():
        files.put(*key, arrays)
    engine = engine_of("sdsoftmax", shards, UsersOnDisk(tmp_path, 3))
    engine.load_state(state | {"optimizer.users": files.state()})
    assert_same(second(engine), unbroken)


def test_one_block_has_the_bytes_of_the_engine_in_memory(shards):
    engine = engine_of("sdsoftmax", shards, UserStore(on_device=True), together=3)
    engine.refit(1)
    like, seed = deepcopy(engine._template), engine._seed_of(0)
    data = ShardBlocks(shards, 3)[0]
    system = with_new_users(like, data, seed=seed)
    whole = FusedGpuEngine(system, data, seed=seed, device=DEVICE)
    assert engine.run_epoch(1).loss == whole.run_epoch(1).loss
    kept = engine._users.join(range(3), "vectors")
    for name, table in whole.user_tables().items():
        assert torch.equal(table, kept[name]), name
    assert torch.equal(system.discriminator.item_ID, engine._template.discriminator.item_ID)


def test_rows_that_were_set_aside_can_come_back_between_epochs(shards):
    rest = Without(shards, np.array([0, 9, 30]))
    engine = engine_of("bpr", rest, together=3)
    assert engine.run_epoch(1).positives == len(shards) - 3
    engine.continue_with(ShardBlocks(shards, 3))
    assert engine.run_epoch(2).positives == len(shards)


BARE = """
import sys
for name in ("scipy", "polars", "safetensors", "sklearn", "rich"):
    sys.modules[name] = None
from sdgar.scale.shards import Shards
from sdgar.systems.bpr import BPR
from sdgar.scale.training import fit_shards
from sdgar.systems.recipe import recipe_of
model = BPR(dim=2, epochs=1, engine="fused-gpu", device="cpu")
fit_shards(model, Shards.open(sys.argv[1]), together=3, work=sys.argv[2], verbose=False)
print(recipe_of(model).trained.engine, recipe_of(model).trained.log[-1][1].loss > 0)
"""


@pytest.mark.skipif(not INTERPRETED, reason="the test has Triton's interpreter compute")
def test_torch_triton_numba_and_numpy_are_enough(shards, tmp_path):
    words = [sys.executable, "-W", "ignore", "-c", BARE, str(shards.folder), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stdout == "fused-gpu-blocks True\n", done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("system", "more"),
    [
        (
            sdgar.SDSoftmax,
            {"sampler__states": 2, "sampler__samples": 2, "sampler__refit_every": 1},
        ),
        (
            sdgar.SDGAR,
            {"sampler__states": 2, "sampler__samples": 2, "early_stopping__every": 1},
        ),
        (sdgar.BPR, {"early_stopping__every": 1}),
    ],
)
def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(shards, system, more, tmp_path):
    small = {"dim": 3, "n_negatives": 2, "engine": "fused-gpu", "device": DEVICE.type, "epochs": 2}
    result = run_whole_and_resumed(
        lambda: system(**small, **more), shards, tmp_path, ram=1 << 30, together=3, test_users=9,
        checkpoint_every=0.0,
    )  # fmt: skip
    assert result.summary["engine"] == "fused-gpu-blocks"


KINDS = {"x": ((4, 2), torch.float32)}


def test_blocks_come_in_order_and_all_leave():
    conveyor, left, loaded = Conveyor(KINDS, DEVICE, threads=2), [], []
    order = [3, 1, 4, 1, 5, 9]

    def load(block, slot):
        here, there = slot.table("x", 3)
        here.fill_(block)
        conveyor.coming.make([(there, here)])
        loaded.append(block)
        return there

    def leave(slot, done):
        here, there = slot.table("x", 3)
        conveyor.leaving.make([(here, there)], after=done)
        left.append(int(here[0, 0]))

    for number, (block, slot, there) in enumerate(conveyor.round(order, load)):
        assert block == order[number]
        assert (there == block).all()
        assert len(loaded) <= number + 2, "no more than one block is loaded ahead"
        there.add_(100)

        conveyor.leave(slot, partial(leave, slot, conveyor.leaving.mark()))
    assert left == [100 + block for block in order]


def test_a_slot_is_not_filled_before_its_block_has_left():
    conveyor, free = Conveyor(KINDS, DEVICE, threads=1), threading.Event()
    blocks = conveyor.round(range(SLOTS + 1), lambda block, slot: block)
    done = []
    _, slot, _ = next(blocks)
    conveyor.leave(slot, lambda: (free.wait(10), done.append("left")))
    for _ in range(SLOTS - 2):
        next(blocks)
    next(blocks)  # the next block has to wait for the slot of the first one
    assert done == []
    free.set()
    assert next(blocks)[2] == SLOTS
    assert done == ["left"]
    assert next(blocks, None) is None


@pytest.mark.parametrize("where", ["load", "leave"])
def test_an_error_of_a_thread_is_raised(where):
    conveyor = Conveyor(KINDS, DEVICE, threads=1)

    def fail(*_):
        raise OSError("no space left")

    def go():
        for _, slot, _ in conveyor.round([0, 1], fail if where == "load" else lambda *_: None):
            conveyor.leave(slot, fail)

    with pytest.raises(OSError, match="no space"):
        go()
