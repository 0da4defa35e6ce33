"""One process compiles a kernel while others wait for it, and nobody waits for ever."""

from __future__ import annotations

import fcntl
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from numba import float64
from numba.core.errors import TypingError

from sdgar.kernels import compiled, compiling
from sdgar.kernels import folder as folders

from .test_compiled import doubled, doubling

FLOATS = (float64[::1],)
LONG = 120
"""The seconds after which a test gives up."""
PROCESS = """
import sys, time
from pathlib import Path
import numpy as np
from sdgar.kernels import compiled, compiling

folder, holds = Path(sys.argv[1]), sys.argv[2] == "holds"
compiling.PATIENCE = 1e9


@compiled.outer
def twice(x_N):
    for i in range(len(x_N)):
        x_N[i] *= 2


compile_now, sleep = twice._compiler.compile, time.sleep


def hold(*types):
    (folder / "compiles").touch()
    while not (folder / "go").exists():
        sleep(0.01)
    return compile_now(*types)


def wait(seconds):
    (folder / "waits").touch()
    sleep(seconds)


if holds:
    twice._compiler.compile = hold
time.sleep = wait
numbers = np.arange(3.0)
twice(numbers)
print(*numbers, *[sum(count.values()) for count in twice.stats[1:]])
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder of the user's, for child processes too."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folders.folder_of_sources.cache_clear()
    yield tmp_path / "sdgar"
    folders.folder_of_sources.cache_clear()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a process that needs a kernel; no process outlives the test."""
    script = tmp_path / "needs_a_kernel.py"
    script.write_text(PROCESS)
    processes = []

    def start(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(script), str(tmp_path), how]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(path: Path, *processes: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LONG
    while not path.exists():
        assert all(process.poll() is None for process in processes), "it ended too early"
        assert time.monotonic() < until, f"{path.name} does not happen"
        time.sleep(0.01)


def said(process: subprocess.Popen[str]) -> list[str]:
    return process.communicate(timeout=LONG)[0].split()


COMPILED, LOADED = ["0.0", "2.0", "4.0", "0", "1"], ["0.0", "2.0", "4.0", "1", "0"]


def test_a_process_waits_for_another_that_compiles_and_loads_what_that_kept(tmp_path, started):
    first = started("holds")
    wait_for(tmp_path / "compiles", first)
    second = started("asks")
    wait_for(tmp_path / "waits", first, second)
    (tmp_path / "go").touch()
    assert said(first) == COMPILED
    assert said(second) == LOADED


def test_a_process_that_is_killed_while_it_compiles_leaves_the_turn_to_the_next(tmp_path, started):
    first = started("holds")
    wait_for(tmp_path / "compiles", first)
    second = started("asks")
    wait_for(tmp_path / "waits", first, second)
    first.kill()
    assert said(second) == COMPILED


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Have a lock as another process would: it belongs to an open file."""
    file = os.open(path, os.O_RDONLY | (0 if path.is_dir() else os.O_CREAT), 0o600)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield file
    finally:
        os.close(file)


def test_patience_ends(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 0.1)
    kernel = doubling()
    with locked(compiling._lock_of(kernel, FLOATS)):
        assert doubled(kernel) == [0, 2, 4]
    assert sum(kernel.stats.cache_misses.values()) == 1


def test_what_is_kept_is_loaded_without_a_turn(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 1e9)
    doubled(doubling())
    kernel = doubling()
    with locked(compiling._lock_of(kernel, FLOATS)):
        assert doubled(kernel) == [0, 2, 4]
    assert sum(kernel.stats.cache_hits.values()) == 1


def test_other_types_of_a_kernel_are_compiled_meanwhile(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 1e9)
    kernel = doubling()
    with locked(compiling._lock_of(kernel, FLOATS)):
        numbers = np.arange(3)
        kernel(numbers)
    assert numbers.tolist() == [0, 2, 4]


def test_nobody_waits_for_a_kernel_that_is_called_by_one_that_is_compiled(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 1e9)
    twice = doubling()

    @compiled.outer
    def four_times(x_N):
        twice(x_N)
        twice(x_N)

    with locked(compiling._lock_of(twice, FLOATS)):
        assert doubled(four_times) == [0, 4, 8]


def test_threads_that_need_each_others_kernels_all_end():
    twice, again = doubling(), doubling()

    @compiled.outer
    def four_times(x_N):
        twice(x_N)
        again(x_N)

    found = []
    kernels = [twice, four_times, again, doubling()]
    threads = [Thread(target=lambda one=one: found.append(doubled(one))) for one in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    assert sorted(found) == [[0, 2, 4]] * 3 + [[0, 4, 8]]


def test_where_files_cannot_be_locked_kernels_are_compiled_at_once(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 1e9)
    kernel = doubling()
    with locked(compiling._lock_of(kernel, FLOATS)), monkeypatch.context() as patched:
        patched.setattr(compiling, "fcntl", None)
        assert doubled(kernel) == [0, 2, 4]
    assert sum(kernel.stats.cache_misses.values()) == 1


def test_on_a_disk_that_knows_no_locks_kernels_are_compiled_at_once(monkeypatch):
    asked = []

    def unsupported(*_: object) -> None:
        asked.append(True)
        raise OSError(95, "Operation not supported")

    kernel = doubling()
    with monkeypatch.context() as patched:
        patched.setattr(compiling.fcntl, "flock", unsupported)
        assert doubled(kernel) == [0, 2, 4]
    assert sum(kernel.stats.cache_misses.values()) == 1
    assert asked == [True, True]  # for the kernel, and to put it into the list


def test_where_no_file_can_be_made_kernels_are_compiled_at_once(monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 1e9)
    kernel = doubling()
    lock = compiling._lock_of(kernel, FLOATS)
    lock.symlink_to(lock)
    assert doubled(kernel) == [0, 2, 4]


def test_a_process_that_was_forked_meanwhile_does_not_keep_the_turn(tmp_path, monkeypatch):
    """A fork shares open files with its parent, as a copy of a descriptor does."""
    forked, open_now = [], os.open

    def open_and_fork(*args: object) -> int:
        file = open_now(*args)
        forked.append(os.dup(file))
        return file

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", open_and_fork)
        with (
            compiling.turn(tmp_path / "a.lock"),
            pytest.raises(BlockingIOError),
            locked(tmp_path / "a.lock"),
        ):
            pass
    with locked(tmp_path / "a.lock"):
        pass
    for file in forked:
        os.close(file)


def test_two_kernels_are_not_put_into_the_list_at_once(monkeypatch):
    """Each would be given the next free number, and one the code of the other."""
    kernel = doubling()
    with locked(Path(kernel.stats.cache_path)) as file:
        released = []

        def release(_: float) -> None:
            assert not list(Path(kernel.stats.cache_path).glob("*.nb?"))
            released.append(True)
            fcntl.flock(file, fcntl.LOCK_UN)

        monkeypatch.setattr(time, "sleep", release)
        doubled(kernel)
    assert released == [True]
    assert {path.suffix for path in Path(kernel.stats.cache_path).glob("*.nb?")} == {".nbi", ".nbc"}


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_searched_for_while_a_kernel_is_compiled(monkeypatch, enabled):
    kernel, found = doubling(), []
    compile_now = kernel._compiler.compile

    def compile_and_look(*types: object) -> object:
        found.append(gc.isenabled())
        return compile_now(*types)

    monkeypatch.setattr(kernel._compiler, "compile", compile_and_look)
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert doubled(kernel) == [0, 2, 4]
        with pytest.raises(TypingError):
            kernel(3.0)  # a number has no length
        assert found == [False, False]
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
