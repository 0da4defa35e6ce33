"""Equations between rows of D numbers on the CPU, computed 16 numbers at a time, or 8 of float64.

Left to itself, the compiler makes of a loop over the numbers of some rows a test of whether they
overlap, a loop over vectors, and a loop over what is left, which costs much where rows are short:
a tenth of an epoch with 32 numbers. Here an equation is written for one place of its rows, and says
by its types what are rows of float32 (``Row``) and what are numbers (``Number``), or else rows and
numbers of float64 (``Row64``, ``Number64``)::

    @each_place
    def add_row(out: Row, x: Row, c: Number) -> Numbers:
        return muladd(c, x, out)

    add_row(row_at(g_VD, v), row_at(item_ID, i), c, dim)

What ``each_place`` computes becomes the first row, or the first rows if there are several;
``sum_of_places`` adds up, one sum or several at once. A row that is written may be one of the rows
that are read, but must not overlap one otherwise. The terms of a sum have one order, whatever
kernel the sum is a part of.
"""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sdgar.kernels.compiled import inner

WIDTH = 16
"""The numbers of a vector: one register of AVX-512, four of NEON."""

_FLOAT, _DOUBLE, _INT32, _INT64 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_SHIFT = {_FLOAT: 2, _DOUBLE: 3}
"""A number has 2^shift bytes; rows need not begin where a vector would."""


@dataclass(frozen=True)
class Numbers:
    """The numbers at 16 places of a row, or at one, while code is made for them."""

    builder: Any
    """What writes LLVM's code."""
    value: Any
    """The numbers in that code: a vector, or one."""

    def __add__(self, other: Numbers) -> Numbers:
        return Numbers(self.builder, self.builder.fadd(self.value, other.value))

    def __sub__(self, other: Numbers) -> Numbers:
        return Numbers(self.builder, self.builder.fsub(self.value, other.value))

    def __mul__(self, other: Numbers) -> Numbers:
        return Numbers(self.builder, self.builder.fmul(self.value, other.value))

    def __truediv__(self, other: Numbers) -> Numbers:
        return Numbers(self.builder, self.builder.fdiv(self.value, other.value))

    def zero(self) -> Numbers:
        """Return as many zeros."""
        return Numbers(self.builder, ir.Constant(self.value.type, None))

    def call(self, name: str, *others: Numbers) -> Numbers:
        """Return what a function of LLVM makes of these numbers."""
        kind = self.value.type
        suffix = f"f{8 << _SHIFT[_number(kind)]}"
        if isinstance(kind, ir.VectorType):
            suffix = f"v{kind.count}{suffix}"
        signature = ir.FunctionType(kind, [kind] * (1 + len(others)))
        function = cgutils.get_or_insert_function(
            self.builder.module, signature, f"llvm.{name}.{suffix}"
        )
        args = [self.value, *(other.value for other in others)]
        return Numbers(self.builder, self.builder.call(function, args))

    def write(self, address: Any) -> None:
        """Write the numbers to memory."""
        pointer = self.builder.inttoptr(address, self.value.type.as_pointer())
        self.builder.store(self.value, pointer).align = 1 << _SHIFT[_number(self.value.type)]


Row: TypeAlias = Numbers
Number: TypeAlias = Numbers
Row64: TypeAlias = Numbers
Number64: TypeAlias = Numbers


@cache
def fuses() -> bool:
    """Return whether the processor that Numba compiles for rounds a b + c once."""
    named = numba.config.CPU_FEATURES  # None unless the user has named them
    has = (
        binding.get_host_cpu_features().get("fma") if named is None else "+fma" in named.split(",")
    )
    return platform.machine() in ("aarch64", "arm64") or bool(has)


def muladd(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    """Return a b + c, rounded once where the processor can do that.

    LLVM's own function for this would leave it to the compiler, for each kernel.
    """
    return a.call("fma", b, c) if fuses() else a * b + c


def root(a: Numbers) -> Numbers:
    """Return the square root."""
    return a.call("sqrt")


@intrinsic
def square_root(typing_context: Any, x: Any) -> Any:
    """Return the square root of one number, by an instruction and not by a call."""

    def code(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        return root(Numbers(builder, given[0])).value

    return types.float32(types.float32), code


def each_place(equation: Callable[..., Any]) -> Any:
    """Compile an equation that gives the first row, or a tuple of the first rows."""
    return intrinsic(_compiler(equation, summed=False))


def sum_of_places(equation: Callable[..., Any]) -> Any:
    """Compile a sum over the places of rows, or a tuple of sums: an equation adds one place to it.

    Its first argument is the sum before that place, which the caller does not pass.
    """
    return intrinsic(_compiler(equation, summed=True))


@inner
def row_at(table, r):
    """Return the address of a row, as equations and prefetches take it."""
    return table.ctypes.data + np.uint64(r) * np.uint64(table.strides[0])


def _compiler(equation: Callable[..., Any], *, summed: bool) -> Callable[..., Any]:
    """Return the function that Numba calls for the types and the code of an equation."""
    signature = inspect.signature(equation)
    parameters = list(signature.parameters.values())[1 if summed else 0 :]
    sums = str(signature.return_annotation).count("Numbers") if summed else 0
    kinds = [str(one.annotation) for one in parameters]
    of, number = (_DOUBLE, types.float64) if kinds[0].endswith("64") else (_FLOAT, types.float32)
    takes = [number if kind.startswith("Number") else types.uintp for kind in kinds]

    def compile_equation(typing_context: Any, *args: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
            found = _Loops(builder, equation, kinds, given, sums, of).run()
            if sums > 1:
                return context.make_tuple(builder, signature.return_type, found)
            return found[0] if sums else context.get_dummy_value()

        several = types.UniTuple(number, sums)
        one_or_none = number if sums else types.void
        gives = several if sums > 1 else one_or_none
        return gives(*takes, types.int64), code

    # Numba looks up how it is called: by the rows and numbers, and how many places there are.
    names = ["typing_context", *(one.name for one in parameters), "n"]
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    compile_equation.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, either) for name in names]
    )
    compile_equation.__name__ = equation.__name__
    compile_equation.__doc__ = equation.__doc__
    return compile_equation


class _Loops:
    """The code of an equation: a loop over vectors, and one over the numbers that are left."""

    def __init__(
        self,
        builder: Any,
        equation: Callable[..., Any],
        kinds: Sequence[str],
        given: Sequence[Any],
        sums: int,
        of: Any,
    ) -> None:
        self._builder, self._equation, self._kinds, self._sums = builder, equation, kinds, sums
        self._given, self._n, self._of = given[:-1], given[-1], of

    def run(self) -> list[Any]:
        """Write both loops; return the sums."""
        builder = self._builder
        vector = _vector(self._of)
        wide = builder.and_(self._n, _INT64(-vector.count))
        sums = self._loop(_INT64(0), wide, vector.count, [ir.Constant(vector, None)] * self._sums)
        return self._loop(wide, self._n, 1, [_added_up(builder, one) for one in sums])

    def _loop(self, first: Any, last: Any, width: int, before: list[Any]) -> list[Any]:
        """Write one loop; return the sums that it ends with."""
        builder, numbers = self._builder, self._numbers(width)

        def body(place: Any, sums: list[Any]) -> list[Any]:
            skipped = builder.shl(place, _INT64(_SHIFT[self._of]))
            addresses = [
                None if kind.startswith("Number") else builder.add(start, skipped)
                for kind, start in zip(self._kinds, self._given, strict=True)
            ]
            values = [
                numbers[i] if address is None else numbers_at(builder, address, width, self._of)
                for i, address in enumerate(addresses)
            ]
            if sums:
                so_far = tuple(Numbers(builder, one) for one in sums)
                values.insert(0, so_far if len(sums) > 1 else so_far[0])  # type: ignore[arg-type]
            made = self._equation(*values)
            made = made if isinstance(made, tuple) else (made,)
            if sums:
                return [one.value for one in made]
            for address, one in zip(addresses, made, strict=False):
                one.write(address)
            return []

        return loop(self._builder, first, last, width, before, body)

    def _numbers(self, width: int) -> list[Numbers | None]:
        """Return the numbers that are the same at every place, and none for rows."""
        return [
            everywhere(self._builder, one, width) if kind.startswith("Number") else None
            for kind, one in zip(self._kinds, self._given, strict=True)
        ]


def loop(
    builder: Any,
    first: Any,
    last: Any,
    step: int,
    before: list[Any],
    body: Callable[[Any, list[Any]], list[Any]],
) -> list[Any]:
    """Write a loop over places; return the sums that it ends with.

    ``body`` writes the code of one place, from the sums before it, and returns those after it.
    """
    start = builder.block
    inside, after = builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(builder.icmp_signed("<", first, last), inside, after)
    builder.position_at_end(inside)
    place = builder.phi(_INT64)
    place.add_incoming(first, start)
    sums = [builder.phi(one.type) for one in before]
    made = body(place, sums)
    following = builder.add(place, _INT64(step))
    end = builder.block  # the body may have written more loops
    place.add_incoming(following, end)
    builder.cbranch(builder.icmp_signed("<", following, last), inside, after)
    builder.position_at_end(after)
    ended = [builder.phi(one.type) for one in before]
    for one, was, now, at_last in zip(sums, before, made, ended, strict=True):
        one.add_incoming(was, start)
        one.add_incoming(now, end)
        at_last.add_incoming(was, start)
        at_last.add_incoming(now, end)
    return ended


def _vector(of: Any) -> Any:
    """Return the type of as many numbers as are computed at a time."""
    return ir.VectorType(of, WIDTH >> (_SHIFT[of] - _SHIFT[_FLOAT]))


def _number(kind: Any) -> Any:
    """Return the type of one of some numbers."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def kind_of(width: int, of: Any = _FLOAT) -> Any:
    """Return the type of the numbers at so many places, one or a vector."""
    return of if width == 1 else _vector(of)


def numbers_at(builder: Any, address: Any, width: int, of: Any = _FLOAT) -> Numbers:
    """Read the numbers at so many places."""
    # Rows begin at any number, so a vector is only as aligned as one of its numbers.
    value = builder.load(builder.inttoptr(address, kind_of(width, of).as_pointer()))
    value.align = 1 << _SHIFT[of]
    return Numbers(builder, value)


def everywhere(builder: Any, number: Any, width: int) -> Numbers:
    """Return the same number for so many places."""
    if width == 1:
        return Numbers(builder, number)
    undefined = ir.Constant(_vector(number.type), ir.Undefined)
    one = builder.insert_element(undefined, number, _INT32(0))
    zeros = ir.Constant(ir.VectorType(_INT32, width), [0] * width)
    return Numbers(builder, builder.shuffle_vector(one, undefined, zeros))


def _added_up(builder: Any, vector: Any) -> Any:
    """Return the sum of a vector: one half and the other, until one number is left."""
    # By halves, in one order on every processor, however wide its own vectors are.
    width = vector.type.count
    while width > 1:
        half = width // 2
        undefined = ir.Constant(vector.type, ir.Undefined)
        places = ir.VectorType(_INT32, half)
        low, high = (
            builder.shuffle_vector(vector, undefined, ir.Constant(places, list(at)))
            for at in (range(half), range(half, width))
        )
        vector, width = builder.fadd(low, high), half
    return builder.extract_element(vector, _INT32(0))


@each_place
def scale_row(out: Row, x: Row, c: Number) -> Numbers:
    """Out = c x."""
    return c * x


@each_place
def add_row(out: Row, x: Row, c: Number) -> Numbers:
    """Out += c x."""
    return muladd(c, x, out)


@each_place
def clear_row(out: Row) -> Numbers:
    """Out = 0."""
    return out.zero()


@sum_of_places
def dot_rows(before: Numbers, a: Row, b: Row) -> Numbers:
    """Σ a b."""
    return muladd(a, b, before)
