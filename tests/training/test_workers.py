"""Several processes that train together: the bytes of one, whatever happens to them."""

import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from torch.distributed import FileStore

import sdgar
from sdgar.data.synthetic import generate
from sdgar.errors import ResourceError, UsageError
from sdgar.maths.rng import Stream
from sdgar.runs.workspace import partial_of
from sdgar.samplers import sampled_sums
from sdgar.scale import workers
from sdgar.scale.run import TEST_SHARE, run_shards
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import ShardBlocks, Without, hold
from sdgar.scale.training import VALID_SHARE

from .workers import CHUNK, OPTIONS, SHAPE, SMALL, Task, bytes_of, model_of, run_together

exhaustive = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return Shards.write(generate(SHAPE, seed=3), tmp_path_factory.mktemp("data") / "shards", 7)


@pytest.fixture(scope="module")
def by_one(shards, tmp_path_factory):
    """Return the bytes of a system that one process trains."""
    found = {}

    def bytes_by_one(system):
        if system not in found:
            out = tmp_path_factory.mktemp("one") / system
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(sampled_sums, "_CHUNK", CHUNK)
                run_shards(model_of(system), shards, out=out, **OPTIONS)
            found[system] = bytes_of(out)
        return found[system]

    return bytes_by_one


@pytest.mark.parametrize(
    ("system", "count", "here"),
    [
        ("SDSoftmax", 3, 2),
        *(
            pytest.param(s, n, h, marks=exhaustive)
            for s in SMALL
            for n, h in ((1, None), (2, None), (2, 1), (3, None), (3, 1), (8, None), (8, 4))
        ),
    ],
)
def test_any_number_of_workers_gives_the_bytes_of_one_process(
    shards, by_one, system, count, here, tmp_path
):
    said = run_together(Task(shards.folder, tmp_path / "run", system, here=here), count)
    assert all(text.startswith("sent") for text in said.values()), said
    assert bytes_of(tmp_path / "run") == by_one(system)
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


@exhaustive
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_a_run_that_three_workers_began_goes_on_with_two(shards, by_one, epochs, tmp_path):
    begun = Task(shards.folder, tmp_path / "run", "SDSoftmax", stop_after=epochs)
    said = run_together(begun, 3)
    assert said[0].startswith("stopped: stopped by SIGTERM")
    assert said[1].startswith("sent")
    run_together(replace(begun, stop_after=None, resume=True), 2)
    assert bytes_of(tmp_path / "run") == by_one("SDSoftmax")


@pytest.mark.parametrize(("number", "block"), [(1, 7), pytest.param(0, 5, marks=exhaustive)])
def test_a_run_goes_on_after_a_worker_was_killed(shards, by_one, number, block, tmp_path):
    begun = Task(shards.folder, tmp_path / "run", "SDSoftmax", killed_at={number: block})
    said = run_together(begun, 3)
    assert number not in said
    assert {text.partition(":")[0] for text in said.values()} == {"worker_lost"}
    assert [path.name for path in tmp_path.iterdir()] == ["run.partial"]
    said = run_together(replace(begun, killed_at={}, resume=True), 2)
    assert said[0].startswith("sent"), said
    assert bytes_of(tmp_path / "run") == by_one("SDSoftmax")


def test_the_first_worker_reports_the_error_of_another(shards, tmp_path):
    said = run_together(Task(shards.folder, tmp_path / "run", "BPR", broken=1), 2)
    assert said[0].startswith("worker_lost: worker 0 cannot continue: worker 1: the disk is full.")
    assert said[1] == "unwritable: the disk is full."


def test_workers_that_differ_are_refused_before_anything_is_written(shards, tmp_path):
    other = Shards.write(generate(SHAPE, seed=4), tmp_path / "other", 7)
    second = {"settings": {"seed": 7}, "shards": other.folder, "version": "9.9"}
    for text in run_together(
        Task(shards.folder, tmp_path / "run", "BPR", second=second), 2
    ).values():
        assert text.startswith("workers_differ")
        assert f"data is {shards.digest!r} for worker 0 and {other.digest!r} for worker 1" in text
        assert f"sdgar is {sdgar.__version__!r} for worker 0 and '9.9' for worker 1" in text
        assert "seed is 0 for worker 0 and 7 for worker 1." in text
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@exhaustive
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("seed", range(10))
def test_a_run_goes_on_after_a_kill_at_any_moment(shards, by_one, seed, count, tmp_path):
    """The moment is some time after a block of one of the four epochs has begun."""
    rng = random.Random(100 * count + seed)
    number, block, later = rng.randrange(count), rng.randint(1, 8), rng.uniform(0.001, 0.03)
    mishap = {"killed_at": {number: block}, "later": later}
    begun = Task(shards.folder, tmp_path / "run", "SDSoftmax", **mishap)
    assert number not in run_together(begun, count)
    if not begun.out.exists():  # it is whole if a worker was killed after the last batch
        left = partial_of(begun.out).exists()
        in_first_epoch = block <= -(-shards.n_shards // OPTIONS["together"])
        assert left or in_first_epoch  # before the first epoch is over, nothing is kept
        said = run_together(replace(begun, killed_at={}, resume=left), 2)
        assert said[0].startswith("sent"), said
    assert bytes_of(begun.out) == by_one("SDSoftmax")


def test_the_others_are_not_waited_for_for_ever(tmp_path):
    store = FileStore(str(tmp_path / "store"), 3)
    store.set("sdgar/0/here/2", "")
    with pytest.raises(ResourceError, match="seconds for the others"):
        workers.meet_at(store, 0, 3, seconds=0.2)


def test_the_command_starts_workers_that_give_the_bytes_of_one_process(shards, by_one, tmp_path):
    words = ["train", str(shards.folder), "--out", str(tmp_path / "run"), "--system", "bpr"]
    words += ["--workers", "2", "--together", "3", "--test-users", "20"]
    for name, value in SMALL["BPR"].items():
        words += ["--set", f"{name}={value}"]
    done = subprocess.run([sys.executable, "-m", "sdgar", *words], capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert bytes_of(tmp_path / "run") == by_one("BPR")


def test_the_bytes_that_are_sent_follow_the_formula(shards, tmp_path):
    """A visit takes 4 D + 8 (P + N) + 16 bytes; all send as many visits as the worker with most."""
    settings = {
        "epochs": 2, "batch_size": 4096, "sampler__positives_per_visit": 2, "n_negatives": 5,
        "item_memory": 0,
    }  # fmt: skip
    said = run_together(Task(shards.folder, tmp_path / "run", "SDSoftmax", settings, here=1), 2)
    test = hold(shards, users=OPTIONS["test_users"], share=TEST_SHARE, seed=0)
    train = Without(shards, test.rows_E)
    valid = hold(train, users=5000, share=VALID_SHARE, seed=0, stream=Stream.SPLIT_VALID)
    visits = 0
    for rows in (Without(train, valid.rows_E), train):
        visits_S = [int(np.sum(-(-np.diff(shard.indptr_U1) // 2))) for shard in rows]
        for block in range(len(ShardBlocks(rows, 3))):
            numbers = ShardBlocks(rows, 3).parts(block)
            visits += max(sum(visits_S[s] for s in numbers if s % 2 == n) for n in range(2))
    assert said == dict.fromkeys(range(2), f"sent {visits * (4 * 4 + 8 * (2 + 5) + 16)}")


def test_a_number_that_no_worker_can_have_is_refused(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UsageError, match="RANK=3 and WORLD_SIZE=3 do not say"):
        workers.from_environment()


def test_one_process_has_everything_and_sends_nothing():
    alone = workers.Workers()
    alone.send(do="run_epoch")
    alone.meet()
    assert [alone.owns(shard) for shard in range(3)] == [True] * 3
