"""Conjugate gradients for the rows of one side on the CPU; see ``maths/least_squares.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.rows import (
    WIDTH,
    Number,
    Numbers,
    Row,
    add_row,
    clear_row,
    dot_rows,
    each_place,
    everywhere,
    kind_of,
    loop,
    muladd,
    numbers_at,
    row_at,
)
from sdgar.kernels.numba.threads import prefetch_row

_CHAINS = 4
"""Sums side by side, of every fourth row each: an addition need not wait for the one before."""
_INT64 = ir.IntType(64)


@intrinsic
def add_rows(
    typing_context: Any, out: Any, scale: Any, c: Any, c_bytes: Any, x: Any, x_bytes: Any,
    rows: Any, n: Any,
) -> Any:  # fmt: skip
    """out += scale · Σ_r c_r x_r, for rows of n numbers.

    ``c`` and ``x`` are the addresses of the first number and of the first row, and so many bytes
    after each of them is the next one. ``out`` is none of these rows.
    """

    def code(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        out, scale, c, c_bytes, x, x_bytes, rows, n = given
        wide = builder.and_(n, _INT64(-WIDTH))
        for first, last, width in ((_INT64(0), wide, WIDTH), (wide, n, 1)):

            def add_at(place: Any, sums: list[Any], width: int = width) -> list[Any]:
                skipped = builder.shl(place, _INT64(2))
                target = builder.add(out, skipped)
                found = _Sums(builder, c, c_bytes, builder.add(x, skipped), x_bytes, width)
                before = numbers_at(builder, target, width)
                times = everywhere(builder, scale, width)
                muladd(times, found.over(rows), before).write(target)
                return sums

            loop(builder, first, last, width, [], add_at)
        return context.get_dummy_value()

    address, count = types.uintp, types.int64
    takes = (address, types.float32, address, count, address, count, count, count)
    return types.void(*takes), code


class _Sums:
    """The sums at some places of rows, as they go from one loop over rows to the next."""

    def __init__(
        self, builder: Any, c: Any, c_bytes: Any, x: Any, x_bytes: Any, width: int
    ) -> None:
        self._builder, self._width = builder, width
        self._c, self._c_bytes, self._x, self._x_bytes = c, c_bytes, x, x_bytes

    def over(self, rows: Any) -> Numbers:
        """Write both loops, over several rows at once and over the remaining rows; add up."""
        fours = self._builder.and_(rows, _INT64(-_CHAINS))
        nothing = ir.Constant(kind_of(self._width), None)
        chains = self._loop(_INT64(0), fours, [nothing] * _CHAINS)
        (first,) = self._loop(fours, rows, chains[:1])
        a, b, c, d = (Numbers(self._builder, one) for one in (first, *chains[1:]))
        return (a + b) + (c + d)

    def _loop(self, first: Any, last: Any, before: list[Any]) -> list[Any]:
        """Write one loop, which takes as many rows at once as there are sums."""
        builder = self._builder

        def body(row: Any, sums: list[Any]) -> list[Any]:
            return [
                self._added(Numbers(builder, one), builder.add(row, _INT64(i))).value
                for i, one in enumerate(sums)
            ]

        return loop(builder, first, last, len(before), before, body)

    def _added(self, before: Numbers, row: Any) -> Numbers:
        """Add the places of one row to a sum."""
        builder = self._builder
        c = builder.add(self._c, builder.mul(row, self._c_bytes))
        x = builder.add(self._x, builder.mul(row, self._x_bytes))
        times = everywhere(builder, numbers_at(builder, c, 1).value, self._width)
        return muladd(times, numbers_at(builder, x, self._width), before)


_AHEAD = 6
"""Rows ahead of the one that is read."""
_NUMBER = np.int64(4)


@each_place
def _follow(way: Row, rest: Row, c: Number) -> Numbers:
    """Way = rest + c way."""
    return muladd(c, way, rest)


@outer
def improve(
    first, last, start_R1, column_E, weight_E, norm_R, v_CD, gram_DD, steps, tiny, u_RD, scratch_3D
):
    """Move u_r towards the solution of (Σ_c w_rc v_c v_c' + G + norm_r) u_r = Σ_c w_rc v_c.

    All steps of a row follow each other, while the rows of v that it needs are in the cache. A row
    that has arrived has no way left to go: 0 / tiny is 0.
    """
    dim, entries, one = u_RD.shape[1], len(column_E), np.float32(1)
    address, row_bytes = v_CD.ctypes.data, np.int64(dim * 4)
    rest, way, left = row_at(scratch_3D, 0), row_at(scratch_3D, 1), row_at(scratch_3D, 2)
    gram = row_at(gram_DD, 0)
    for r in range(first, last):
        begin, end, u = start_R1[r], start_R1[r + 1], row_at(u_RD, r)
        clear_row(rest, dim)
        for e in range(begin, end):
            if e + _AHEAD < entries:
                ahead = np.int64(column_E[e + _AHEAD])
                prefetch_row(address, ahead, np.uint64(row_bytes), np.uint64(row_bytes))
            v = row_at(v_CD, column_E[e])
            add_row(rest, v, weight_E[e] * (one - dot_rows(u, v, dim)), dim)
        add_rows(rest, -one, u, _NUMBER, gram, row_bytes, dim, dim)
        add_row(rest, u, -norm_R[r], dim)
        clear_row(way, dim)
        size, before = dot_rows(rest, rest, dim), tiny
        for step in range(steps):
            _follow(way, rest, size / max(before, tiny) if step > 0 else np.float32(0), dim)
            clear_row(left, dim)
            for e in range(begin, end):
                v = row_at(v_CD, column_E[e])
                add_row(left, v, weight_E[e] * dot_rows(way, v, dim), dim)
            add_rows(left, one, way, _NUMBER, gram, row_bytes, dim, dim)
            add_row(left, way, norm_R[r], dim)
            length = size / max(dot_rows(way, left, dim), tiny)
            add_row(u, way, length, dim)
            add_row(rest, left, -length, dim)
            before, size = size, dot_rows(rest, rest, dim)
