"""The number of threads follows what was fastest, and nothing is tried on quiet cores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdgar.engines.pace import Pace


def stretch(pace: Pace, rate_of, *, busy: float) -> int:
    """One stretch of made-up work by the threads the pace asks for, and their number."""
    threads, before = pace.threads, pace._trial
    seconds = 0.11
    pace.note(int(rate_of(threads) * seconds), seconds, busy * threads * seconds)
    assert before is None or pace._trial is None
    return threads


def test_on_quiet_cores_all_threads_run_and_nothing_else_is_tried():
    pace = Pace(8)
    assert {stretch(pace, lambda n: 1e4 * n, busy=0.95) for _ in range(300)} == {8}


@pytest.mark.parametrize("most", [2, 3, 4, 16])
def test_while_cores_are_shared_the_engine_goes_on_with_one_thread(most):
    pace = Pace(most)
    ran = [stretch(pace, lambda n: 1e4 / n, busy=0.5) for _ in range(200)]
    assert ran[0] == most
    assert pace.usual == 1
    assert ran.count(1) > 170
    assert set(ran[-100:]) <= {1, 2}


def test_threads_that_wait_but_are_faster_go_on():
    pace = Pace(2)
    ran = [stretch(pace, lambda n: 1e4 * n**0.5, busy=0.6) for _ in range(200)]
    assert pace.usual == 2
    assert ran.count(1) < 10


@pytest.mark.parametrize("most", [2, 3, 8])
def test_all_threads_come_back_when_the_neighbour_leaves(most):
    pace = Pace(most)
    for _ in range(500):
        stretch(pace, lambda n: 1e4 / n, busy=0.5)
    ran = [stretch(pace, lambda n: 1e4 * n, busy=0.95) for _ in range(300)]
    assert ran[0] == 1
    assert ran[-1] == pace.usual == most


def test_the_best_number_may_lie_between():
    pace = Pace(8)
    for _ in range(300):
        stretch(pace, lambda n: {1: 1e4, 2: 1.5e4, 4: 1.2e4, 8: 0.5e4}[n], busy=0.7)
    assert pace.usual == 2


def test_short_epochs_are_judged_together():
    pace = Pace(2)
    for _ in range(9):
        pace.note(5, 0.01, 0.01)
    assert pace.threads == 2
    pace.note(5, 0.01001, 0.01)
    assert pace.threads == 1


@given(
    most=st.integers(1, 64),
    notes=st.lists(
        st.tuples(st.integers(1, 10**9), st.just(0.0) | st.floats(1e-9, 10), st.floats(0, 100)),
        max_size=60,
    ),
)
def test_there_is_always_a_next_number_and_some_work(most, notes):
    pace = Pace(most)
    for work, seconds, cpu_seconds in notes:
        assert 1 <= pace.threads <= most
        assert 1 <= pace.usual <= most
        assert pace.work() >= 1
        pace.note(work, seconds, cpu_seconds)
