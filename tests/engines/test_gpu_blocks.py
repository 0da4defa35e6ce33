"""Epochs over blocks of users by the fused engine of the GPU, in Triton's interpreter or on one."""

from __future__ import annotations

import threading
from copy import deepcopy

import numpy as np
import pytest
import torch

import sdgar
from sdgar.data.shards import Shards
from sdgar.data.shards.blocks import Blocks
from sdgar.data.shards.held import Without
from sdgar.engines.blocks import BlockEngine
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.engines.gpu_blocks import GpuBlockEngine
from sdgar.engines.slots import SLOTS, Conveyor, Kind
from sdgar.engines.users import InMemory, OnDevice
from sdgar.parts.users import for_users
from sdgar.training.users_on_disk import UsersOnDisk

from .compositions import GPU as DEVICE
from .compositions import INTERPRETED, some_data

pytest.importorskip("triton", reason="Triton is not installed on this machine")
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("Triton needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
CPU = torch.device("cpu")
SYSTEMS = {
    "sdsoftmax": sdgar.SDSoftmax(dim=3, states=2, epochs=4, generator_samples=2, n_negatives=2),
    "bpr": sdgar.BPR(dim=3),
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """About 60 rows of 14 users, with weights, in three shards."""
    data = some_data(users=14, items=10)
    weight = 1 + np.arange(len(data)) % 3
    data = sdgar.Interactions.from_arrays(
        data.users.at(data.users_E), data.items.at(data.items_E), weight=weight
    )
    return Shards.write(data, tmp_path_factory.mktemp("data") / "shards", 3)


def engine_of(name, shards, users=None, together=2, kind=GpuBlockEngine):
    blocks = Blocks(shards, together)
    first = blocks.rows(0, 1)
    where = {"device": DEVICE} if kind is GpuBlockEngine else {}
    device = DEVICE if kind is GpuBlockEngine else CPU
    system = SYSTEMS[name].compose(first, seed=3, device=device)
    users = InMemory() if users is None else users
    return kind(system, first, blocks, seed=3, for_users=for_users, users=users, **where)


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


@pytest.fixture(scope="module", params=SYSTEMS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def found(name, shards):
    """The tensors and the last numbers of two epochs, with users who wait in memory."""
    engine, stats = trained(engine_of(name, shards))
    return tensors_of(engine), stats


def test_epochs_are_those_of_the_blocks_of_the_cpu(name, shards, found):
    engine, stats = trained(engine_of(name, shards, kind=BlockEngine))
    tensors, own = found
    for one, table in engine.learned().tensors().items():
        torch.testing.assert_close(tensors[one], table, rtol=1e-4, atol=1e-5)
    assert own.loss == pytest.approx(stats.loss, rel=1e-5)
    assert own.positives == stats.positives == len(shards)


def test_where_users_wait_changes_no_byte(name, shards, found, tmp_path):
    for users in (OnDevice(), UsersOnDisk(tmp_path, 3)):
        assert_same(tensors_of(trained(engine_of(name, shards, users))[0]), found[0])


def test_one_block_has_the_bytes_of_the_engine_in_memory(shards):
    engine = engine_of("sdsoftmax", shards, OnDevice(), together=3)
    engine.refit(1)
    like, seed = deepcopy(engine._like), engine._seed_of(0)
    data = Blocks(shards, 3)[0]
    system = for_users(like, data, seed=seed)
    whole = FusedGpuEngine(system, data, seed=seed, device=DEVICE)
    for epoch in (1, 2):
        assert engine.run_epoch(epoch).loss == whole.run_epoch(epoch).loss
    kept = engine._users.join(range(3), "vectors")
    for name, table in whole.users().items():
        assert torch.equal(table, kept[name]), name
    assert torch.equal(system.discriminator.item_ID, engine._like.discriminator.item_ID)


def test_an_engine_goes_on_from_its_state_to_the_same_bytes(shards, tmp_path):
    engine, _ = trained(engine_of("sdsoftmax", shards, UsersOnDisk(tmp_path, 3)), epochs=1)
    state = engine.state()
    again = engine_of("sdsoftmax", shards, UsersOnDisk(tmp_path, 3))
    again.load_state({name: table.cpu() for name, table in state.items()})
    for one in (engine, again):  # the first one writes what the second one does not look at
        one.refit(2)
        one.run_epoch(2)
    assert_same(tensors_of(again), tensors_of(engine))


def test_rows_that_were_set_aside_can_come_back_between_epochs(shards):
    rest = Without(shards, np.array([0, 9, 30]))
    engine = engine_of("bpr", rest)
    assert engine.run_epoch(1).positives == len(shards) - 3
    engine.go_on_with(Blocks(shards, 2))
    assert engine.run_epoch(2).positives == len(shards)


KINDS = {"x": Kind(4, (2,), torch.float32)}


def test_blocks_come_in_order_and_all_leave():
    conveyor, left, loaded = Conveyor(KINDS, DEVICE, threads=2), [], []
    order = [3, 1, 4, 1, 5, 9]

    def load(block, slot):
        here, there = slot.table("x", 3)
        here.fill_(block)
        conveyor.coming.make([(there, here)])
        loaded.append(block)
        return there

    for number, (block, slot, there) in enumerate(conveyor.round(order, load)):
        assert block == order[number]
        assert (there == block).all()
        assert len(loaded) <= number + 2, "no more than one block is loaded ahead"
        there.add_(100)

        def leave(slot=slot, done=conveyor.leaving.mark()):
            here, there = slot.table("x", 3)
            conveyor.leaving.make([(here, there)], after=done)
            left.append(int(here[0, 0]))

        conveyor.leave(slot, leave)
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
