"""Training on shards: users pass through memory in blocks, wherever they are in between."""

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest

import sdgar
from sdgar.data.synthetic import generate
from sdgar.errors import ArtifactError, DataError, ResourceError, UsageError
from sdgar.scale.needs import ram_needs
from sdgar.scale.run import run_shards
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import ShardBlocks, Without, hold
from sdgar.scale.training import fit_shards
from sdgar.scale.users import UsersOnDisk

from ..cli.test_cli import sdgar as command
from .workers import SHAPE, SMALL, bytes_of, model_of, run_whole_and_resumed


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return Shards.write(generate(SHAPE, seed=3), tmp_path_factory.mktemp("data") / "shards", 5)


def saved(model, path: Path):
    model.save(path)
    return bytes_of(path)


@pytest.mark.parametrize("system", SMALL)
def test_users_in_memory_and_in_files_give_the_same_bytes(shards, system, tmp_path):
    found = [
        saved(
            fit_shards(model_of(system), shards, together=2, work=work, verbose=False),
            tmp_path / f"model{number}",
        )
        for number, work in enumerate((None, tmp_path / "work"))
    ]
    assert found[0] == found[1]


def test_the_number_of_threads_changes_no_byte(shards, tmp_path, set_threads):
    found = []
    for threads in (1, 3):
        set_threads(threads)
        model = fit_shards(model_of("SDSoftmax"), shards, together=2, verbose=False)
        found.append(saved(model, tmp_path / f"by{threads}"))
    assert found[0] == found[1]


def test_every_user_and_every_row_is_known_to_the_model(shards):
    data = shards.interactions()
    model = fit_shards(model_of("BPR"), shards, together=3, verbose=False)
    assert model.recommender_.users.values.tolist() == data.users.values.tolist()
    assert np.array_equal(model.recommender_.history.items_E, data.items_E)
    assert len(model.recommend(data.users.values.tolist(), k=1)) == data.n_users


def test_vectors_from_shards_find_what_groups_of_users_like(tmp_path):
    rng = np.random.default_rng(0)
    group_U, liked = np.arange(120) % 4, 6
    items = np.concatenate([10 * g + rng.choice(10, liked, replace=False) for g in group_U])
    data = sdgar.Interactions.from_arrays(np.repeat(np.arange(120), liked), items)
    shards = Shards.write(data, tmp_path / "shards", 4)
    options = {"ram": 1 << 30, "together": 2, "test_users": 100}
    model = sdgar.SDSoftmax(dim=8, sampler__states=4, item_memory=0)
    result = run_shards(model, shards, out=tmp_path / "run", **options)
    assert result.test.means()["ndcg@10"] > 2 * result.popular.means()["ndcg@10"]


@pytest.mark.parametrize(
    ("system", "epochs"), [("SDSoftmax", 1), ("SDSoftmax", 2), ("SDGAR", 3), ("BPR", 2), ("BPR", 5)]
)
def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(shards, system, epochs, tmp_path):
    run_whole_and_resumed(
        lambda: model_of(system), shards, tmp_path, epochs=epochs, ram=1 << 30, together=2,
        test_users=20, checkpoint_every=0.0,
    )  # fmt: skip


def test_one_epoch_is_not_run_again_for_few_validation_rows(shards, tmp_path, monkeypatch):
    monkeypatch.setattr("sdgar.scale.training.FEW", 1.0)
    result = run_whole_and_resumed(
        lambda: model_of("SDSoftmax", epochs=1), shards, tmp_path, ram=1 << 30, together=2,
        test_users=20, checkpoint_every=0.0,
    )  # fmt: skip
    assert [(phase, record.epoch) for phase, record in result.log] == [("choose", 1)]
    assert result.summary["epochs"] == result.summary["best_epoch"] == 1


def test_rows_are_set_aside_alike_for_any_number_of_shards(tmp_path):
    data = generate(SHAPE, seed=4)
    found = []
    for n in (1, 3, 7):
        shards = Shards.write(data, tmp_path / f"{n}", n)
        held = hold(shards, users=25, share=0.3, seed=5)
        rank_U = np.concatenate([shard.rank_U for shard in shards])
        counts = np.diff(held.held_out.indptr_T1)
        pairs = zip(np.repeat(rank_U[held.users_T], counts), held.held_out.items_E, strict=True)
        found.append(sorted((int(user), int(item)) for user, item in pairs))
        assert len(held.users_T) == 25
        assert (counts >= 1).all()
        assert (np.diff(held.seen.indptr_U1) >= 1).all()
    assert found[0] == found[1] == found[2]


def test_shards_of_users_who_come_once_say_that_nothing_can_be_measured(tmp_path):
    data = sdgar.Interactions.from_arrays([1, 2, 3], ["a", "b", "a"])
    with pytest.raises(DataError, match=r"no user of .* has two rows or more"):
        fit_shards(model_of("BPR"), Shards.write(data, tmp_path / "s", 2), verbose=False)


def test_the_newest_rows_are_set_aside_where_there_are_times(tmp_path):
    users, items = np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)
    time = np.tile([3, 9, 1, 7, 5], 6)
    data = sdgar.Interactions.from_arrays(users, items, time=time)
    held = hold(Shards.write(data, tmp_path / "s", 2), users=6, share=0.4, seed=0)
    assert held.held_out.items_E.reshape(6, 2).tolist() == [[1, 3]] * 6


def test_shards_without_some_rows_are_those_rows_left_out(shards):
    rows_E = np.array([0, 3, 4, 200, 201, len(shards) - 1])
    whole, rest = ShardBlocks(shards, 5)[0], ShardBlocks(Without(shards, rows_E), 5)[0]
    assert np.array_equal(rest.items_E, np.delete(whole.items_E, rows_E))
    assert np.array_equal(rest.users_E, np.delete(whole.users_E, rows_E))
    twice = Without(Without(shards, rows_E), np.array([0, 7]))
    left = np.delete(np.delete(whole.items_E, rows_E), [0, 7])
    assert np.array_equal(ShardBlocks(twice, 5)[0].items_E, left)
    assert twice.n_rows == len(left) == sum(len(shard) for shard in twice)


def test_blocks_have_all_rows_once(shards):
    blocks = ShardBlocks(shards, 2)
    assert len(blocks) == 3
    assert sum(map(len, blocks)) == len(shards)
    assert [len(block.users) for block in blocks] == np.diff(blocks.start_B1).tolist()
    with pytest.raises(IndexError):
        blocks[3]


def test_too_little_memory_is_refused_before_anything_is_computed(shards, tmp_path):
    model = model_of("SDSoftmax")
    needs = ram_needs(model, shards, 4)
    with pytest.raises(ResourceError, match="--together 1"):
        run_shards(
            model, shards, out=tmp_path / "run", ram=needs.items + needs.block // 3, together=4
        )
    with pytest.raises(ResourceError, match="smaller dim or states"):
        run_shards(model, shards, out=tmp_path / "run", ram=needs.items // 2, together=4)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "how", "said"),
    [
        (sdgar.CML(dim=4), {}, "MetricModel cannot be trained on users in blocks"),
        (sdgar.BPR(sampler__dislikes=0.1), {}, r"no dislikes, and sampler__dislikes is 0\.1"),
        (sdgar.BPR(engine="eager", device="cpu"), {}, "by fused-cpu here, and engine is eager"),
        (sdgar.BPR(device="cpu"), {"users_on_gpu": True}, "wait on the GPU only if it trains them"),
    ],
)
def test_what_cannot_be_trained_on_shards_is_refused(shards, model, how, said):
    with pytest.raises(UsageError, match=said):
        fit_shards(model, shards, verbose=False, **how)


def test_versions_that_no_state_has_are_removed(tmp_path):
    users = UsersOnDisk(tmp_path, 2)
    users.put(0, "vectors", {"x": np.array([1.0])})
    first = users.state()
    users.put(0, "vectors", {"x": np.array([2.0])})
    users.put(1, "states", {"x": np.array([3.0])})
    assert len(list(tmp_path.iterdir())) == 3
    again = UsersOnDisk(tmp_path, 2)
    again.load_state(first)
    assert again.get(0, "vectors")["x"].tolist() == [1.0]
    assert again.get(1, "states") is None
    assert again.has(0, "vectors")
    assert not again.has(1, "states")
    assert len(list(tmp_path.iterdir())) == 1
    next(tmp_path.iterdir()).unlink()
    with pytest.raises(ArtifactError, match="is missing, so the run cannot resume"):
        UsersOnDisk(tmp_path, 2).load_state(first)


@pytest.mark.parametrize("where", ["put", "allocate"])
def test_a_full_disk_is_named(where, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    users = UsersOnDisk(tmp_path, 2, lambda shard: True)
    monkeypatch.setattr("sdgar.scale.users.write_tensors", full)
    monkeypatch.setattr("os.posix_fallocate", full)
    vectors = {"u": np.zeros((2, 3), np.float32)}
    write = {
        "put": lambda: users.put(0, "vectors", vectors),
        "allocate": lambda: users.allocate("a", (2, 3)),
    }
    with pytest.raises(ResourceError, match="the disk is full") as found:
        write[where]()
    assert found.value.code == "disk_full"


def test_a_bad_shard_is_named_before_anything_is_computed(shards, tmp_path):
    folder = tmp_path / "bad.shards"
    shutil.copytree(shards.folder, folder)
    file = folder / "shard-00001" / "items.npy"
    file.write_bytes(file.read_bytes()[:-4])
    done = command("train", folder, "--out", tmp_path / "run")
    assert done.returncode == 4
    assert "shard-00001/items.npy is damaged: it has" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["bad.shards"]
