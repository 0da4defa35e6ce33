"""Threads leave the cores that other processes use, and come back when those are gone."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.machine import cores, threads
from sdgar.machine.cores import CoreUse, FreeCores, core_use, worth_threads


@given(
    of_others=st.floats(0, 64), own=st.floats(0, 64), n=st.integers(1, 64), t=st.floats(0.2, 0.5)
)
def test_free_cores_are_those_that_others_left(of_others, own, n, t):
    start = time.perf_counter() - 1e4
    later = CoreUse(n, start + t, 5.0 + (of_others + own) * t, 1.0 + own * t)
    uses = iter([CoreUse(n, start, 5.0, 1.0), later])
    free = FreeCores(lambda: next(uses))
    assert free.count() == pytest.approx(n - of_others, abs=1e-6)


@pytest.mark.parametrize(
    ("seen", "free"),
    [
        # What was seen long ago says nothing of now.
        ([(0.0, 0.0, 0.0), (9.0, 18.0, 0.0), (9.2, 18.2, 0.0)], [2, 1]),
        # A process that was forked counts from zero.
        ([(0.0, 0.0, 50.0), (0.2, 0.0, 1.0), (0.6, 0.9, 1.5)], [2, 1]),
    ],
)
def test_only_two_times_near_each_other_of_one_process_are_compared(seen, free):
    start = time.perf_counter() - 1e4
    uses = iter([CoreUse(2, start + clock, *used) for clock, *used in seen])
    cores_free = FreeCores(lambda: next(uses))
    assert [cores_free.count(), cores_free.count()] == pytest.approx(free)


def test_within_a_window_nothing_is_read():
    reads = itertools.count()

    def read() -> CoreUse:
        return CoreUse(2, time.perf_counter(), 3.0 * next(reads), 0.0)

    free = FreeCores(read)
    assert {free.count() for _ in range(100)} == {2}
    assert next(reads) == 1


def test_where_nothing_is_known_all_cores_are_free():
    assert worth_threads(FreeCores(lambda: None).count(), 7) == 7


def test_one_thread_goes_on_however_busy_the_cores_are():
    found = [worth_threads(free, 8) for free in (-3.0, 0.0, 1.4, 1.5, 7.6, 99.0)]
    assert found == [1, 1, 1, 2, 8, 8]


def stat(tmp_path, monkeypatch, text: str) -> CoreUse | None:
    (tmp_path / "stat").write_text(text)
    monkeypatch.setattr(cores, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: {0, 10}, raising=False)
    monkeypatch.setattr(cores.os, "sysconf", lambda _: 100)
    return core_use()


def test_only_own_cores_and_normal_work_count(tmp_path, monkeypatch):
    """user nice system idle iowait irq softirq steal guest guest_nice"""
    found = stat(
        tmp_path,
        monkeypatch,
        "cpu  9 9 9 9 9 9 9 9 9 9\n"
        "cpu0 100 5000 20 7000 8000 3 4 50 9000 9000\n"
        "cpu1 9 9 9 9 9 9 9 9 9 9\n"
        "cpu10 1 1 1 1 1 1 1 1 1 1\n"
        "intr 123\n",
    )
    assert found is not None
    assert found.everyone == pytest.approx((100 + 20 + 3 + 4 + 4) / 100)
    assert found.cores == 2


@pytest.mark.parametrize(
    "text", ["", "cpu0 1 1 1 1 1 1 1 1 1 1\n", "cpu0 x\ncpu10 y\n", "cpu0 1\n"]
)
def test_counts_that_cannot_be_read_are_no_counts(tmp_path, monkeypatch, text):
    assert stat(tmp_path, monkeypatch, text) is None


def counted(free, work):
    """Return the free cores while something runs; a window that was held up is measured again."""
    while True:
        begun = free._before.clock
        while time.perf_counter() - begun < 0.3:
            work()
        found = free.count()
        if free._before.clock - begun <= cores._LONG_AGO:
            return found


@pytest.mark.skipif(core_use() is None, reason="this system does not count what its cores do")
def test_a_busy_neighbour_is_noticed_and_this_process_is_not():
    free, n = FreeCores(core_use), len(cores.os.sched_getaffinity(0))
    count = "while True: sum(range(1000))"
    neighbours = [subprocess.Popen([sys.executable, "-S", "-c", count]) for _ in range(n)]
    try:
        busy = counted(free, lambda: time.sleep(0.01))
        still = counted(free, lambda: sum(range(1000)))
    finally:
        for one in neighbours:
            one.kill()
            one.wait()
    assert busy < 0.6 * n
    assert still < 0.8 * n


def test_a_thread_without_a_core_takes_no_part(monkeypatch):
    by = set()
    monkeypatch.setattr(cores, "threads", lambda: 4)
    monkeypatch.setattr(cores, "threads_now", lambda most: 1)
    parts = []

    def part(first: int, last: int) -> None:
        by.add(threading.get_ident())
        parts.append((first, last))

    threads.run_parts(part, 64, 10**6)
    assert len(by) == 1
    assert sorted(parts) == [(first, first + 2) for first in range(0, 64, 2)]


def test_threads_come_and_go_with_the_cores_and_every_part_is_done_once(monkeypatch):
    by, now = [], itertools.cycle([1, 3, 1, 1, 4, 2])
    monkeypatch.setattr(cores, "threads", lambda: 4)
    monkeypatch.setattr(cores, "threads_now", lambda most: next(now))
    parts = []

    def part(first: int, last: int) -> None:
        by.append(threading.get_ident())
        parts.extend(range(first, last))
        time.sleep(0.002)

    threads.run_parts(part, 320, 10**6, at_once=2)
    assert sorted(parts) == list(range(320))
    assert 1 < len(set(by)) <= 4
    assert by[0] == threading.get_ident()


@pytest.mark.parametrize("bad", range(0, 64, 7))
def test_the_error_of_any_part_is_raised_and_ends_the_work(monkeypatch, bad):
    monkeypatch.setattr(cores, "threads", lambda: 3)
    monkeypatch.setattr(cores, "threads_now", lambda most: most)
    done = []

    def part(first: int, last: int) -> None:
        if first <= bad < last:
            raise ArithmeticError(bad)
        time.sleep(0.001)
        done.append(first)

    with pytest.raises(ArithmeticError, match=str(bad)):
        threads.run_parts(part, 640, 10**6, at_once=1)
    assert len(done) < 640


def test_nothing_is_kept_after_the_work(monkeypatch):
    """What the parts have used is freed at once, and not by the next garbage collection."""
    monkeypatch.setattr(cores, "threads", lambda: 2)
    monkeypatch.setattr(cores, "threads_now", lambda most: most)

    class Scratch:
        pass

    scratch = Scratch()
    alive = weakref.ref(scratch)

    def part(first: int, last: int, scratch: Scratch) -> None:
        assert scratch is not None

    gc.disable()
    try:
        threads.run_parts(part, 64, 10**6, scratch)
        del scratch
        assert alive() is None
    finally:
        gc.enable()


def test_a_product_in_one_thread_is_that_of_all():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(400, 64, generator=generator) for _ in range(2))
    with cores.one_thread():
        alone = a @ b.T
    np.testing.assert_array_equal(alone.numpy(), (a @ b.T).numpy())


@pytest.mark.skipif(cores._openmp() is None, reason="only Arm builds need this")
def test_arms_products_start_no_threads():
    a = torch.randn(600, 600)
    a @ a

    def cpu_of_others() -> float:
        start, own = time.process_time(), time.thread_time()
        for _ in range(20):
            a @ a
        return (time.process_time() - start) - (time.thread_time() - own)

    with cores.one_thread():
        inside = cpu_of_others()
    assert inside < 0.02
