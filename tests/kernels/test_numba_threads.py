"""Threads that meet: nothing is lost and nobody runs ahead."""

from __future__ import annotations

import threading

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from sdgar.kernels import numba_threads


@numba.njit(nogil=True)
def relay(t, threads, barrier_2, seen_T, meetings, wrong_T):
    """Every thread counts; all must see the same counts of all others after a meeting."""
    for meeting in range(meetings):
        seen_T[t] += 1
        numba_threads.meet(barrier_2, threads)
        for other in range(threads):
            if seen_T[other] != meeting + 1:
                wrong_T[t] += 1
        numba_threads.meet(barrier_2, threads)
    return


@numba.njit(nogil=True)
def hand_over(t, threads, barrier_2, total_1, meetings):
    """One thread at a time adds to one number without any lock, in turns kept by meetings."""
    for meeting in range(meetings):
        if meeting % threads == t:
            total_1[0] += 1
        numba_threads.meet(barrier_2, threads)
    return


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_nobody_passes_a_meeting_before_all_are_there(threads):
    # More threads than cores: they must give the core away while they wait.
    meetings = 500
    seen_T, wrong_T = np.zeros(threads, np.int64), np.zeros(threads, np.int64)
    numba_threads.run(relay, threads, seen_T, meetings, wrong_T)
    assert seen_T.tolist() == [meetings] * threads
    assert wrong_T.tolist() == [0] * threads


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_no_update_is_lost_between_meetings(threads):
    total_1 = np.zeros(1, np.int64)
    numba_threads.run(hand_over, threads, total_1, 2000)
    assert total_1[0] == 2000


def test_every_thread_is_called_once_with_its_number():
    calls, lock = [], threading.Lock()

    def kernel(t, threads, barrier_2, what):
        with lock:
            calls.append((t, threads, what, barrier_2.tolist()))

    numba_threads.run(kernel, 4, "work")
    assert sorted(calls) == [(t, 4, "work", [0, 0]) for t in range(4)]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_thread_reaches_the_caller(threads):
    def kernel(t, threads, barrier_2):
        if t == threads - 1:
            raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        numba_threads.run(kernel, threads)


def test_a_barrier_of_other_numbers_is_refused():
    @numba.njit
    def kernel(barrier_2):
        numba_threads.meet(barrier_2, 2)

    with pytest.raises(TypingError, match="a barrier is an array of int64"):
        kernel(np.zeros(2, np.int32))
