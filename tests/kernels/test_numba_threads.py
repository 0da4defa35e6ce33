"""Threads that meet: nothing is lost and no thread runs ahead."""

from __future__ import annotations

import threading
import time

import numba
import numpy as np
import pytest
import torch

from sdgar.kernels.numba import threads as numba_threads
from sdgar.machine.threads import run_parts

NAPPING = numba_threads._meeting(numba_threads._nap, numba_threads._let_nap)
"""The barrier of systems on which a thread cannot be woken."""


def relay_of(meet):
    @numba.njit(nogil=True)
    def relay(t, threads, barrier_5, seen_T, meetings, wrong_T):
        """Every thread counts; all must see the same counts of all others after a meeting."""
        for meeting in range(meetings):
            seen_T[t] += 1
            meet(barrier_5, threads)
            for other in range(threads):
                if seen_T[other] != meeting + 1:
                    wrong_T[t] += 1
            meet(barrier_5, threads)
        return

    return relay


RELAYS = {"woken": relay_of(numba_threads.meet), "napping": relay_of(NAPPING)}


@pytest.mark.parametrize("way", RELAYS)
@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_nobody_passes_a_meeting_before_all_are_there(threads, way):
    # More threads than cores: they must give the core away while they wait.
    meetings = 500 if threads < 16 else 50
    seen_T, wrong_T = np.zeros(threads, np.int64), np.zeros(threads, np.int64)
    numba_threads.run(RELAYS[way], threads, seen_T, meetings, wrong_T)
    assert seen_T.tolist() == [meetings] * threads
    assert wrong_T.tolist() == [0] * threads


@pytest.mark.parametrize("way", RELAYS)
def test_a_thread_that_waits_for_long_uses_no_core(way):
    """One thread comes to the meeting late; the other's CPU time stays a small part of that."""
    kernel, late, used = RELAYS[way], 0.4, []

    def part(t, threads, barrier_5, seen_T, wrong_T):
        time.sleep(late * t)
        start = time.thread_time()
        kernel(t, threads, barrier_5, seen_T, 1, wrong_T)
        used.append(time.thread_time() - start)

    counts = np.zeros((2, 2), np.int64)
    kernel(0, 1, np.zeros(5, np.int32), counts[0], 1, counts[1])  # it is compiled
    counts[:] = 0
    numba_threads.run(part, 2, *counts)
    assert len(used) == 2
    assert sum(used) < late / 4


def test_a_meeting_that_counts_past_the_largest_number_is_a_meeting_still():
    barrier_5, counts = np.array([0, 2**31 - 3, 0, 0, 0], np.int32), np.zeros((2, 3), np.int64)
    others = [
        threading.Thread(target=RELAYS["woken"], args=(t, 3, barrier_5, counts[0], 5, counts[1]))
        for t in range(3)
    ]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert counts.tolist() == [[5] * 3, [0] * 3]
    assert barrier_5.tolist() == [0, -(2**31) + 7, 0, 0, 0]


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize("numbers", [0, 10**6])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
def test_every_row_is_taken_once_by_any_thread(rows, numbers, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    count_R = np.zeros(rows, np.int64)

    def kernel(first, last, step):
        count_R[first:last] += step

    run_parts(kernel, rows, numbers, 2)
    assert count_R.tolist() == [2] * rows


@pytest.mark.usefixtures("plenty_of_cores")
def test_a_thread_that_is_held_up_keeps_others_from_no_part_but_its_own(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    rest_done, taken, lock = threading.Event(), [], threading.Lock()

    def kernel(first, last):
        with lock:
            taken.append(first)
            if len(taken) == 16:
                rest_done.set()
        if first == 0:
            assert rest_done.wait(20)

    run_parts(kernel, 160, 10**6)
    assert sorted(taken) == list(range(0, 160, 10))


def test_every_thread_is_called_once_with_its_number():
    calls, lock = [], threading.Lock()

    def kernel(t, threads, barrier_5, what):
        with lock:
            calls.append((t, threads, what, barrier_5.tolist()))

    numba_threads.run(kernel, 4, "work")
    assert sorted(calls) == [(t, 4, "work", [0] * 5) for t in range(4)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_part_of_every_round_is_taken_once(threads):
    @numba.njit(nogil=True)
    def kernel(t, threads, barrier_5, by_RP):
        for r in range(len(by_RP)):
            part = numba_threads.take(barrier_5)
            while part < by_RP.shape[1]:
                by_RP[r, part] += 1
                part = numba_threads.take(barrier_5)
            numba_threads.meet(barrier_5, threads)

    by_RP = np.zeros((50, 7), np.int64)
    numba_threads.run(kernel, threads, by_RP)
    assert (by_RP == 1).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_thread_reaches_the_caller(threads):
    def kernel(t, threads, barrier_5):
        if t == threads - 1:
            raise ValueError("bad part")

    with pytest.raises(ValueError, match="bad part"):
        numba_threads.run(kernel, threads)
