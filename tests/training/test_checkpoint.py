"""Checkpoints: written whole, verified, never of a broken state, and of one run only."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sdgar.errors import ArtifactError, NumericalError, ResourceError, UsageError
from sdgar.models.factor_tensors import FactorTensors
from sdgar.storage import folders, sealed
from sdgar.training.checkpoint_file import Checkpoint, Finished, as_json, read, require_same
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.records import EpochRecord, FitOptions, Progress

CPU = torch.device("cpu")
IDENTITY = {"system": "bpr", "seed": 0, "k": (10, 20), "training data": "a1b2"}
FILES = ("state.safetensors", "loop.json", "manifest.json")


def some_factors(seed: int) -> FactorTensors:
    generator = torch.Generator().manual_seed(seed)
    return FactorTensors(
        torch.randn(3, 2, generator=generator),
        torch.randn(4, 2, generator=generator),
        torch.randn(4, generator=generator),
    )


def some_log(epochs: int) -> list[EpochRecord]:
    """Validation every second epoch; the first value stays the best."""
    return [
        EpochRecord(
            epoch,
            loss=1 / 3 + epoch,
            train_seconds=0.1,
            metric=1 / epoch if epoch % 2 == 0 else None,
            best=epoch == 2,
            health={"kl": 0.1},
        )
        for epoch in range(1, epochs + 1)
    ]


def a_checkpoint(epoch: int = 3) -> Checkpoint:
    return Checkpoint(
        phase="final",
        log=some_log(epoch),
        best=some_factors(epoch).tensors(),
        engine="eager",
        state={
            "model.user_UD": torch.randn(3, 2),
            "optimizer.0.step": torch.tensor(7.0),
            "sampler.mass": torch.arange(6).reshape(2, 3).T,  # a view, not as it lies in memory
        },
        finished={"choose": Finished(some_factors(9).tensors(), 2, some_log(2))},
        seconds=1.25,
    )


def kept_in(folder: Path, **more) -> Checkpoints:
    return Checkpoints(folder, IDENTITY, device=CPU, **more)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def is_good(folder: Path) -> bool:
    try:
        read(folder, as_json(IDENTITY), CPU)
    except sealed.DamagedError:
        return False
    return True


class StubEngine:
    """Holds a state, runs nothing."""

    name = "eager"

    def __init__(self, state: dict | None = None) -> None:
        self.held = state or {}

    def state(self) -> dict:
        return self.held

    def load_state(self, state: dict) -> None:
        self.held = state


def like() -> FactorTensors:
    return some_factors(0)


def resumed(store: Checkpoints, engine: StubEngine, phase: str) -> Progress:
    """The progress of a pass that begins."""
    store.begin(phase, like)
    return store.restore(engine)


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    written = a_checkpoint()
    found = read(kept_in(tmp_path).write(written), as_json(IDENTITY), CPU)
    assert found.state.keys() == written.state.keys()
    for name, tensor in written.state.items():
        assert torch.equal(found.state[name], tensor)
        assert found.state[name].dtype == tensor.dtype
    assert found.log == written.log
    assert found.finished["choose"].log == written.finished["choose"].log
    assert found.finished["choose"].best_epoch == 2
    for name, tensor in written.best.items():
        assert torch.equal(found.best[name], tensor)
        assert torch.equal(found.finished["choose"].model[name], some_factors(9).tensors()[name])
    assert (found.phase, found.engine, found.seconds) == ("final", "eager", 1.25)


def test_best_epoch_and_patience_follow_from_the_log():
    progress = Progress(some_log(7), some_factors(0))
    assert (progress.epoch, progress.best_epoch, progress.best_metric) == (7, 2, 0.5)
    assert progress.stale == 2
    assert progress.health.numbers == {"kl": 0.1}
    assert progress.over(FitOptions(patience=2))
    assert not progress.over(FitOptions(patience=3))
    assert not progress.over(FitOptions(patience=2, early_stopping=False))
    assert progress.over(FitOptions(patience=3, epochs=7))
    fresh = Progress()
    assert (fresh.epoch, fresh.best_epoch, fresh.stale, fresh.health.numbers) == (0, 0, 0, {})
    assert fresh.best_metric == float("-inf")


def test_the_newest_two_are_kept(tmp_path):
    store = kept_in(tmp_path)
    for epoch in (1, 2, 3, 4):
        store.write(a_checkpoint(epoch))
    assert names(tmp_path) == ["checkpoint-000005", "checkpoint-000006"]


def damages(good: bytes):
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(good), 60):
        flipped = bytearray(good)
        flipped[at] ^= 1 << rng.integers(0, 8)
        yield bytes(flipped)
    yield from (b"", good[:1], good[: len(good) // 2], good[:-1], good + b"\0")


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_and_every_truncation_is_noticed(tmp_path, name):
    folder = kept_in(tmp_path).write(a_checkpoint())
    good = (folder / name).read_bytes()
    for bad in damages(good):
        (folder / name).write_bytes(bad)
        assert not is_good(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_newest_checkpoint_is_left_out_for_the_one_before_and_said_to_be(tmp_path, name):
    store = kept_in(tmp_path)
    store.write(a_checkpoint(1))
    newest = store.write(a_checkpoint(2))
    (newest / name).write_bytes(b"{}")
    notes = kept_in(tmp_path).resume()
    assert len(notes) == 2
    assert f"{newest.name}/" in notes[0]
    assert "is damaged" in notes[0]
    assert notes[1] == "resuming after epoch 1 of pass 'final'"
    assert names(tmp_path) == ["checkpoint-000003"]


def test_when_none_is_good_that_is_an_error_and_nothing_is_removed(tmp_path):
    store = kept_in(tmp_path)
    for epoch in (1, 2):
        (store.write(a_checkpoint(epoch)) / "loop.json").write_bytes(b"")
    before = names(tmp_path)
    with pytest.raises(ArtifactError, match=r"no checkpoint in .* can be used.*--overwrite"):
        kept_in(tmp_path).resume()
    assert names(tmp_path) == before


def test_without_a_checkpoint_a_run_starts_at_its_first_epoch(tmp_path):
    store = kept_in(tmp_path)
    assert store.resume() == ["there is no checkpoint yet: starting with the first epoch"]
    assert resumed(store, StubEngine(), "choose").epoch == 0


def test_a_pass_is_taken_up_once_and_with_the_state_of_its_engine(tmp_path):
    written = a_checkpoint()
    kept_in(tmp_path).write(written)
    store = kept_in(tmp_path)
    store.resume()
    engine = StubEngine()
    progress = resumed(store, engine, "final")
    assert progress.epoch == 3
    assert torch.equal(progress.best.item_ID, some_factors(3).item_ID)
    assert engine.held.keys() == written.state.keys()
    assert torch.equal(store.begin("choose", like).model.user_UD, some_factors(9).user_UD)
    assert store.begin("final", like) is None
    assert resumed(store, StubEngine(), "final").epoch == 0


class Picky(StubEngine):
    """An engine that some states do not fit."""

    def load_state(self, state):
        raise KeyError("model.bias_I")


@pytest.mark.parametrize(
    ("change", "engine", "said"),
    [
        ({"best": {"weight": torch.zeros(2)}}, StubEngine(), "does not fit this system"),
        ({}, Picky(), "does not fit this system"),
        ({"engine": "warp"}, StubEngine(), "engine was 'warp', is now 'eager'"),
    ],
)
def test_a_checkpoint_of_another_model_or_engine_is_refused(tmp_path, change, engine, said):
    kept_in(tmp_path).write(replace(a_checkpoint(), **change))
    store = kept_in(tmp_path)
    store.resume()
    with pytest.raises(ArtifactError, match=said):
        resumed(store, engine, "final")


def test_all_fields_that_differ_are_named_at_once():
    with pytest.raises(ArtifactError, match=r"a was 1, is now 2; c was None, is now 3"):
        require_same({"a": 1, "b": 0}, {"a": 2, "b": 0, "c": 3}, Path("run.partial"))


def test_a_tuple_is_the_list_that_it_becomes_in_a_file():
    kept = as_json(IDENTITY)
    require_same(kept, as_json(IDENTITY), Path("run.partial"))
    with pytest.raises(ArtifactError, match=r"k was \[10, 20\], is now \[10\]"):
        require_same(kept, kept | {"k": [10]}, Path("run.partial"))


def rewrite_loop(folder: Path, **changes) -> None:
    """Change loop.json and mend the manifest, as another version would write it."""
    data = json.dumps(json.loads((folder / "loop.json").read_text()) | changes).encode()
    (folder / "loop.json").write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] |= sealed.seals({"loop.json": data})
    del manifest["seal"]
    (folder / "manifest.json").write_text(json.dumps(sealed.with_seal(manifest)))


def test_another_format_version_is_refused_not_guessed(tmp_path):
    rewrite_loop(kept_in(tmp_path).write(a_checkpoint()), format_version=99)
    with pytest.raises(ArtifactError, match="version 99"):
        kept_in(tmp_path).resume()


@pytest.mark.parametrize(
    "changes",
    [{"log": [{"epoch": 1}]}, {"log": 3}, {"finished": {"other": {}}}, {"seconds": "soon"}],
)
def test_a_sealed_file_that_describes_no_run_is_damaged(tmp_path, changes):
    folder = kept_in(tmp_path).write(a_checkpoint())
    rewrite_loop(folder, **changes)
    with pytest.raises(sealed.DamagedError, match="does not describe"):
        read(folder, as_json(IDENTITY), CPU)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["model.user_UD", "optimizer.0.step", "best", "finished"])
def test_a_number_that_is_not_finite_is_never_written(tmp_path, name, value):
    store = kept_in(tmp_path)
    good = store.write(a_checkpoint(1))
    bad = a_checkpoint(2)
    tensor = {
        **bad.state,
        "best": bad.best["item_ID"],
        "finished": bad.finished["choose"].model["bias_I"],
    }[name]
    tensor.view(-1)[-1] = value
    with pytest.raises(
        NumericalError, match=f"{name}.* holds a number that is not finite"
    ) as error:
        store.write(bad)
    assert error.value.exit_code == 6
    assert names(tmp_path) == [good.name]
    read(good, as_json(IDENTITY), CPU)


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EXDEV, errno.EMFILE],
)
@pytest.mark.parametrize("call", ["mkdir", "open", "fsync", "replace"])
def test_a_failing_disk_is_loud_and_leaves_the_checkpoint_before(
    tmp_path, monkeypatch, call, number
):
    store = kept_in(tmp_path, resume_with="sdgar train --resume runs/a")
    good = store.write(a_checkpoint(1))

    def fail(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os if call == "fsync" else Path, call, fail)
    with pytest.raises(ResourceError) as error:
        store.write(a_checkpoint(2))
    monkeypatch.undo()
    assert error.value.exit_code == 5
    for said in ("checkpoint-000004", f"[Errno {number}]", "bytes", "--resume runs/a"):
        assert said in str(error.value)
    assert names(tmp_path) == [good.name]
    read(good, as_json(IDENTITY), CPU)


def test_what_reads_back_differently_is_an_error_and_removes_nothing(tmp_path, monkeypatch):
    store = kept_in(tmp_path)
    for epoch in (1, 2):
        store.write(a_checkpoint(epoch))
    write = folders.write
    monkeypatch.setattr(folders, "write", lambda path, data: write(path, data[:-1]))
    with pytest.raises(ResourceError, match="reads back differently"):
        store.write(a_checkpoint(3))
    monkeypatch.undo()
    assert {"checkpoint-000003", "checkpoint-000004"} <= set(names(tmp_path))
    assert kept_in(tmp_path).resume()[-1] == "resuming after epoch 2 of pass 'final'"


class Killed(BaseException):
    """The process is gone: nothing after it reaches the disk."""


def kill_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """Allow ``step`` steps on the disk and none after them, clean-up included."""
    left = [step]

    def guarded(function):
        def call(*args, **kwargs):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return function(*args, **kwargs)

        return call

    steps = [(Path, n) for n in ("mkdir", "open", "replace", "rename", "unlink")]
    for owner, name in [*steps, (os, "fsync"), (shutil, "rmtree"), (folders, "_exchange")]:
        patch.setattr(owner, name, guarded(getattr(owner, name)))


def test_killed_at_any_step_of_writing_two_good_checkpoints_are_left(tmp_path):
    """Each step on the disk is tried as the last one; also over a damaged one of that name."""
    for over_a_damaged_one in (False, True):
        for step in range(100):
            folder = tmp_path / f"{over_a_damaged_one}-{step}"
            store = kept_in(folder)
            for epoch in (1, 2):
                store.write(a_checkpoint(epoch))
            if over_a_damaged_one:
                shutil.copytree(folder / "checkpoint-000004", folder / "checkpoint-000005")
                (folder / "checkpoint-000005" / "loop.json").write_bytes(b"")
            with pytest.MonkeyPatch.context() as patch:
                kill_at(patch, step)
                try:
                    store.write(a_checkpoint(3))
                    done = True
                except Killed:
                    done = False
            good = [f for f in folder.glob("checkpoint-*") if is_good(f)]
            assert len(good) >= 2
            kept_in(folder).resume()
            assert not list(folder.glob(".checkpoint-*"))
            if done:
                break
        assert done
        assert step >= 10


def test_how_often_a_checkpoint_is_written_is_bounded_by_seconds(tmp_path):
    engine = StubEngine({"model.user_UD": torch.zeros(2)})
    for every, written in ((0.0, 3), (1e6, 0)):
        store = kept_in(tmp_path / f"{every}", every=every)
        store.begin("choose", like)
        seen = set()
        for epoch in (1, 2, 3):
            store.offer(Progress(some_log(epoch)), engine, last=epoch == 3)
            seen |= {p.name for p in (tmp_path / f"{every}").glob("*")}
        assert len(seen) == written


def test_the_end_of_a_pass_is_kept_if_the_last_checkpoint_is_a_minute_old(tmp_path, monkeypatch):
    engine = StubEngine({"model.user_UD": torch.zeros(2)})
    store = kept_in(tmp_path, every=1e6)
    now = time.perf_counter()
    for seconds, written in ((59, 0), (61, 1)):
        monkeypatch.setattr(time, "perf_counter", lambda s=seconds: now + s)
        store.begin("choose", like)
        store.offer(Progress(some_log(3)), engine, last=True)
        assert len([*tmp_path.glob("checkpoint-*")]) == written


@pytest.mark.parametrize("every", [-1.0, float("nan")])
def test_a_negative_interval_is_refused(tmp_path, every):
    with pytest.raises(UsageError, match="checkpoint_every"):
        kept_in(tmp_path, every=every)
