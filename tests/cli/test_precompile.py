"""A second process compiles for ``sdgar train``, and is never in the way."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from sdgar.cli import main, precompile
from sdgar.kernels.cache import cache_folder

SMALL = {"dim": 2, "epochs": 1, "early_stopping": False}


@pytest.fixture
def note():
    """The file that says that BPR was compiled, which is not there before nor after."""
    folder = cache_folder()
    assert folder is not None
    path = folder / "precompiled.bpr"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def several_cores(monkeypatch):
    monkeypatch.setattr(precompile, "_several_cores", lambda: True)


def job(system: str = "bpr", device: str = "cpu", shards: object = None) -> SimpleNamespace:
    return SimpleNamespace(system=system, settings=SMALL, device=device, shards=shards)


def test_the_loop_of_a_system_is_compiled(note):
    precompile.rehearse("bpr", SMALL)
    assert any(note.parent.glob("**/*.epoch-*.nbi"))


def test_nothing_is_compiled_for_a_system_without_a_loop(note):
    precompile.rehearse("popular", {})


@pytest.mark.parametrize(
    ("system", "engine", "device", "several", "rank"),
    [
        ("bpr", "auto", "auto", False, None),
        ("bpr", "eager", "auto", True, None),
        ("bpr", "auto", "cuda", True, None),
        ("bpr", "auto", "auto", True, "1"),
        ("composed", "auto", "auto", True, None),
    ],
)
def test_no_process_is_started_where_it_is_of_no_use(
    note, monkeypatch, system, engine, device, several, rank
):
    monkeypatch.setattr(precompile, "_several_cores", lambda: several)
    monkeypatch.setattr(subprocess, "Popen", None)
    if rank:
        monkeypatch.setenv("RANK", rank)
    with precompile.Precompiler(system, engine, device).compiling(job(system)):
        pass


def test_no_process_is_started_for_what_is_compiled(note, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()
    precompile.Precompiler("bpr", "auto", "auto")


def test_where_no_process_can_be_started_training_goes_on(note, monkeypatch):
    def full(*args: object, **more: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", full)
    with precompile.Precompiler("bpr", "auto", "auto").compiling(job()):
        pass


def test_the_process_ends_with_the_job(note, monkeypatch):
    helper = precompile.Precompiler("bpr", "auto", "auto")
    process = helper._process
    with helper.compiling(job()):
        assert process.poll() is None
        assert not note.exists()
    assert note.exists()
    assert process.returncode is not None


def test_a_command_that_is_refused_leaves_no_process(note, monkeypatch, tmp_path):
    started = []
    start = subprocess.Popen

    def seen(*args: object, **more: object) -> subprocess.Popen:
        started.append(start(*args, **more))
        return started[-1]

    monkeypatch.setattr(precompile.subprocess, "Popen", seen)
    words = ["sdgar", "train", "absent.csv", "--out", str(tmp_path / "run"), "--system", "bpr"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        main.run()
    assert len(started) == 1
    assert started[0].returncode is not None


def test_a_training_that_fails_is_not_noted(note, monkeypatch):
    with (
        pytest.raises(ValueError, match="no rows"),
        precompile.Precompiler("bpr", "auto", "cpu").compiling(job()),
    ):
        raise ValueError("no rows")
    assert not note.exists()


@pytest.mark.parametrize("sent", [b"", b"{}\n"])
def test_a_process_without_a_job_ends(sent):
    done = subprocess.run(
        [sys.executable, "-m", "sdgar.cli.precompile"], input=sent, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_job_on_shards_lets_the_process_go(note, monkeypatch):
    helper = precompile.Precompiler("bpr", "auto", "auto")
    with helper.compiling(job(shards={})):
        assert helper._process.wait(timeout=120) == 0
    assert not note.exists()
