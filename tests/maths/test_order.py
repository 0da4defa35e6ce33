"""Orders and ranks equal NumPy's stable sorts, by NumPy and by kernels alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sdgar import kernels
from sdgar.machine import cores
from sdgar.maths.order import distinct_pairs, in_order, ranked, sorted_rows


@pytest.mark.parametrize("end", [1, 7, 1 << 31, 1 << 54, 1 << 60, (1 << 63) - 1])
def test_an_order_is_that_of_a_stable_sort(end):
    numbers = np.random.default_rng(0).integers(0, min(end, 50), 1000)
    numbers[::7], numbers[::5] = end - 1, end // 3
    order, found = in_order(numbers, end)
    assert order.tolist() == np.argsort(numbers, kind="stable").tolist()
    assert found.tolist() == sorted(numbers.tolist())


IDS = {
    "none": np.array([], np.int64),
    "far": np.array([-(2**63), 2**63 - 1, 0, 0]),
    "lowest": np.array([-(2**63), -(2**63) + 5, -(2**63)]),
    "highest": np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], np.uint64),
    "unsigned": np.array([2**63, 0], np.uint64),
    "near": np.random.default_rng(2).integers(-40, 900, 500),
    "apart": np.random.default_rng(3).integers(0, 10**12, 500),
    "int8": np.array([-100, 100, 45, 44], np.int8),
    "int16": np.array([-30_000, 30_000, 7], np.int16),
    "uint8": np.array([0, 255, 3], np.uint8),
    "all of int8": np.array([127, 125, 126, 125], np.int8),
    "all of uint64": np.array([2**64 - 1, 2**64 - 2], np.uint64),
    "text": np.array(["b", "a", "b"], object),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ranks_are_those_of_unique(ids):
    distinct, index = ranked(ids)
    wanted, inverse = np.unique(ids, return_inverse=True)
    assert (distinct.dtype, index.dtype) == (wanted.dtype, np.int64)
    assert distinct.tolist() == wanted.tolist()
    assert index.tolist() == inverse.tolist()


@pytest.fixture(params=["numpy", "kernels"], scope="module")
def way(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "MANY_ROWS", 0 if request.param == "kernels" else 1 << 62)
        yield request.param


def require_sorted(first, second, ends, time, weight):
    """Raise if rows are in another order than by a comparison sort, or other entries are left."""
    found = sorted_rows(first, second, ends, time, weight)
    keys = (second, first) if time is None else (time, second, first)
    order = np.lexsort(keys)
    assert_array_equal(found.key_E, (first.astype(np.int64) * ends[1] + second)[order])
    assert (found.time_E is None) == (time is None)
    assert (found.weight_E is None) == (weight is None)
    if time is not None:
        assert_array_equal(found.time_E, time[order])
    if weight is not None:
        assert_array_equal(found.weight_E, weight[order])
    made = distinct_pairs(found, ends)
    latest = {}
    for row in order.tolist():
        latest[int(first[row]), int(second[row])] = None if time is None else int(time[row])
    lengths = np.bincount([r for r, _ in latest], minlength=ends[0]) if ends[0] < 1e6 else None
    if lengths is not None:
        assert_array_equal(made.start_R1, np.append(0, np.cumsum(lengths)))
    assert made.column_F.dtype == np.int32
    assert made.column_F.tolist() == [c for _, c in latest]
    assert (made.time_F is None) == (time is None)
    if time is not None:
        assert made.time_F.tolist() == list(latest.values())


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(-2, 2)),
        min_size=1,
        max_size=60,
    )
)
def test_few_rows_are_those_of_a_stable_sort(way, rows, timed, weighted):
    first, second, time = np.array(rows, np.int64).T
    weight = np.arange(len(rows)) / 7
    require_sorted(first, second, (6, 4), time if timed else None, weight if weighted else None)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32])
@pytest.mark.parametrize("ends", [(1, 1), (300, 7), (900, 70_000), (1000, 2**31 - 1)])
def test_keys_of_any_width_are_sorted(way, ends, dtype):
    generator = np.random.default_rng(0)
    first, second = (generator.integers(0, end, 3000).astype(dtype) for end in ends)
    second[::3] = second[0]
    time = generator.integers(-(2**62), 2**62, 3000)
    require_sorted(first, second, ends, time, generator.random(3000))


@pytest.mark.parametrize("times", ["rising", "falling", "random"])
def test_many_rows_of_one_pair_are_in_the_order_of_time(way, times):
    generator = np.random.default_rng(1)
    first, second = np.repeat([0, 2, 3], [700, 3, 900]), np.repeat([5, 1, 9], [1, 2, 1600])
    second = np.resize(second, len(first))
    time = generator.integers(0, 50, len(first))
    if times != "random":
        time = np.sort(time)[:: 1 if times == "rising" else -1].copy()
    require_sorted(first, second, (5, 11), time, generator.random(len(first)))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_rows(monkeypatch, threads):
    monkeypatch.setattr(kernels, "MANY_ROWS", 0)
    monkeypatch.setattr(cores, "threads", lambda: threads)
    generator = np.random.default_rng(2)
    first, second, time = (generator.integers(0, end, 4000) for end in (90, 60, 5))
    require_sorted(first, second, (90, 60), time, generator.random(4000))
    require_sorted(first[:3], second[:3], (90, 60), time[:3], None)
