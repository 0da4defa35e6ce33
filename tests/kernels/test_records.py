"""Named tuples become records: kernels find in them what Python has put there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.errors import TypingError
from numpy.typing import NDArray

from sdgar.kernels.compiled import inner, outer
from sdgar.kernels.records import Record


class _Part(NamedTuple):
    scale: np.float32
    x_RC: NDArray[np.float32]


class _Whole(NamedTuple):
    count: int
    seed: np.uint64
    ok: bool
    part: _Part
    part_K: tuple[_Part, ...]
    flag_R: NDArray[np.bool_]
    sum_R: NDArray[np.float64]


class _OnlyPart(NamedTuple):
    part: Any


@inner
def _sum_of(part: Any) -> Any:
    total = 0.0
    for r in range(len(part.x_RC)):
        for c in range(part.x_RC.shape[1]):
            total += part.scale * part.x_RC[r, c]
    return total


@outer
def _add_up(whole: Any) -> Any:
    """Leave Σ x of the part and of each of several in sum_R, where flag_R says so."""
    for k in range(whole.count):
        if whole.flag_R[k]:
            whole.sum_R[k] += _sum_of(whole.part if k == 0 else whole.part_K[k - 1])
        whole.flag_R[k] = not whole.flag_R[k]
    return whole.seed, whole.ok


def _part(rng: np.random.Generator, rows: int) -> _Part:
    numbers = rng.integers(-99, 99, (rows, 3)).astype(np.float32)
    return _Part(np.float32(rng.integers(1, 9)), numbers)


@given(st.integers(0, 5), st.integers(0, 2**64 - 1), st.booleans(), st.integers(0, 999))
def test_kernels_read_and_write_what_a_record_has(rows: int, seed: int, ok: bool, draw: int):
    rng = np.random.default_rng(draw)
    parts = [_part(rng, rows) for _ in range(4)]
    flag_R = rng.random(4) < 0.5
    wanted = [float(one.scale * one.x_RC.sum()) if flag_R[k] else 0 for k, one in enumerate(parts)]
    whole = _Whole(
        4, np.uint64(seed), ok, parts[0], tuple(parts[1:]), flag_R.copy(), np.zeros(4)
    )  # fmt: skip
    assert _add_up(whole) == (seed, ok)
    np.testing.assert_array_equal(whole.sum_R, wanted)
    np.testing.assert_array_equal(whole.flag_R, ~flag_R)


@outer
def _transposed(part: Any, out_N: Any) -> Any:
    """Leave the numbers in their order, and say how they lie."""
    x_RC = part.x_RC
    for r in range(x_RC.shape[0]):
        for c in range(x_RC.shape[1]):
            out_N[r * x_RC.shape[1] + c] = x_RC[r, c]
    return x_RC.strides, x_RC.itemsize


@pytest.mark.parametrize(
    "x_RC",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.arange(24, dtype=np.float32).reshape(3, 8)[::-1, ::2],
    ],
    ids=["contiguous", "transposed", "backwards"],
)
def test_arrays_may_lie_in_memory_in_any_way(x_RC):
    out_N = np.zeros(x_RC.size, np.float32)
    strides, itemsize = _transposed(_Part(np.float32(1), x_RC), out_N)
    np.testing.assert_array_equal(out_N.reshape(x_RC.shape), x_RC)
    assert (strides, itemsize) == (x_RC.strides, 4)


@outer
def _write(part: Any) -> Any:
    part.x_RC[0, 0] = 1
    return None


def test_what_cannot_be_written_is_not_compiled():
    part = _part(np.random.default_rng(0), 1)
    part.x_RC.setflags(write=False)
    with pytest.raises(TypingError, match="setitem"):
        _write(part)


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("text", "can hold arrays, integers, booleans and np.float32, not 'text'"),
        (1.5, "can hold arrays, integers, booleans and np.float32, not 1.5"),
        ((_Part(np.float32(1), np.zeros((1, 1), np.float32)), _OnlyPart(1)), "have the same type"),
    ],
)
def test_what_has_no_place_in_a_record_is_named(field, why):
    with pytest.raises(TypeError, match=why):
        Record(_OnlyPart(field))
