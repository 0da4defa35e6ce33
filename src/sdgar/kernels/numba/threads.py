"""Threads that meet, and parts of work that threads take; and a prefetch for Numba kernels.

A kernel is started once in every thread and meets the others at barriers, which costs less than
a microsecond where all of them have a core; a parallel region of Numba's own costs some hundred on
a busy machine, and takes ten times as long to compile. A thread that has spun at the barrier for
a while releases its core until the last one is there: on shared cores that one may be waiting for
this very core.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sdgar.kernels.compiled import inner

SPINS = 4000
"""Spins at the barrier before the core is released: about 20 microseconds, the cost of releasing a
core and getting it back."""
_FUTEX_CALLS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""The number of Linux's call by which a thread waits for a change of a word in memory."""
FUTEX = _FUTEX_CALLS.get(platform.machine(), 0) if sys.platform == "linux" else 0
_WAIT, _WAKE = 0, 1
"""The operations of that call, for threads of one process or of several that share memory."""
_ALL = np.int32(0x7FFFFFFF)
"""As many as may sleep."""
_SLEEP = 100_000
"""The microseconds after which a sleeping thread checks for an alarm."""
_NAP, _LONGEST_NAP = 20, 500
"""Microseconds of the first and the longest nap, where there is no such call."""
WORDS = 5
"""The words of a barrier: how many have arrived, how often all have met, how many sleep, how many
parts of work were taken since then, and whether there is an alarm. Threads of one process have no
alarm; processes raise it if one of them has ended, so that the others do not wait for it."""
_ARRIVED, _MET, _SLEEPING, _TAKEN, ALARM = range(WORDS)


def _word(builder: Any, context: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Return a pointer to one int32 of an array."""
    struct = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, struct, [index], wraparound=False)


@intrinsic
def add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Add atomically, and return what was there before."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _word(builder, context, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", pointer, args[2], "seq_cst")

    return types.int32(array, types.int64, types.int32), code


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """Read one word atomically."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _word(builder, context, signature.args[0], args[0], args[1])
        return builder.load_atomic(pointer, "seq_cst", 4)

    return types.int32(array, types.int64), code


@intrinsic
def futex(
    typing_context: Any, array: Any, index: Any, what: Any, value: Any, microseconds: Any
) -> Any:
    """Sleep while a word has a value, or wake so many of the threads that sleep on it.

    Sleep lasts for so many microseconds at the most.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int64 = ir.IntType(64)
        pointer = _word(builder, context, signature.args[0], args[0], args[1])
        time = cgutils.alloca_once(builder, ir.LiteralStructType([int64, int64]))
        million = int64(1_000_000)
        rest = builder.mul(builder.urem(args[4], million), int64(1000))
        for place, part in enumerate((builder.udiv(args[4], million), rest)):
            builder.store(part, cgutils.gep_inbounds(builder, time, 0, place))
        limit = builder.ptrtoint(time, int64)
        kind = ir.FunctionType(int64, [int64], var_arg=True)
        function = cgutils.get_or_insert_function(builder.module, kind, "syscall")
        builder.call(function, [int64(FUTEX), pointer, args[2], args[3], limit])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int32, types.int32, types.int64), code


@intrinsic
def sleep(typing_context: Any, microseconds: Any) -> Any:
    """Sleep by the C library."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int32 = ir.IntType(32)
        kind = ir.FunctionType(int32, [int32])
        function = cgutils.get_or_insert_function(builder.module, kind, "usleep")
        builder.call(function, [args[0]])
        return context.get_dummy_value()

    return types.void(types.int32), code


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Ask for the cache line at an address; never faults."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer_type = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer_type, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.inttoptr(args[0], pointer_type)
        builder.call(function, [pointer, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), code


@inner
def prefetch_row(address, row, row_bytes, used):
    """Ask for the first ``used`` bytes of a row of a table."""
    start = address + np.uint64(row) * row_bytes
    for offset in range(np.uint64(0), used, np.uint64(64)):
        prefetch(start + offset)


@inner
def prefetch_whole_row(table, row):
    """Ask for a row of a table."""
    size = np.uint64(table.strides[0])
    prefetch_row(table.ctypes.data, row, size, size)


@inner
def prefetch_vector(table_RCD, row):
    """Ask for the vector of a row, its first part; the state of its step comes after it."""
    size, used = np.uint64(table_RCD.strides[0]), np.uint64(table_RCD.shape[2] * 4)
    prefetch_row(table_RCD.ctypes.data, row, size, used)


@inner
def _may_wait(words_5, generation):
    return load(words_5, _MET) == generation and load(words_5, ALARM) == 0


@inner
def _sleep_until_woken(words_5, generation):
    """Release the core until the last one wakes all that sleep."""
    add(words_5, _SLEEPING, 1)
    while _may_wait(words_5, generation):
        futex(words_5, _MET, _WAIT, generation, _SLEEP)
    add(words_5, _SLEEPING, -1)


@inner
def _wake(words_5):
    # A call of the system costs more than the whole meeting if nobody sleeps.
    if load(words_5, _SLEEPING) > 0:
        futex(words_5, _MET, _WAKE, _ALL, 0)


@inner
def _nap(words_5, generation):
    """Release the core again and again, for longer and longer."""
    microseconds = _NAP
    while _may_wait(words_5, generation):
        sleep(microseconds)
        microseconds = min(2 * microseconds, _LONGEST_NAP)


@inner
def _let_nap(words_5):
    return None


def _meeting(wait: Any, wake: Any) -> Any:
    """Make the barrier, by a way to wait for the others and a way to wake them.

    A thread that is about to sleep adds itself before it reads how often all have met a last time,
    and the thread that changes that number checks for sleepers afterwards, so none sleeps through
    a meeting.
    """

    @inner
    def meet(words_5: Any, count: Any) -> Any:
        """Wait until so many are here; return whether an alarm came first.

        What the others wrote before is seen after. Parts of work are then taken from the first on.
        """
        generation = load(words_5, _MET)
        if add(words_5, _ARRIVED, 1) == count - 1:
            # All others wait, so nothing reads these two words before the third changes.
            add(words_5, _ARRIVED, -count)
            add(words_5, _TAKEN, -load(words_5, _TAKEN))
            add(words_5, _MET, 1)
            wake(words_5)
            return False
        spins = 0
        while spins < SPINS and load(words_5, _MET) == generation:
            spins += 1
        if spins == SPINS:
            wait(words_5, generation)
        return load(words_5, _MET) == generation

    return meet


meet = _meeting(_sleep_until_woken, _wake) if FUTEX else _meeting(_nap, _let_nap)


@inner
def take(words_5):
    """Return the number of a part of work that no thread has taken since the last meeting.

    A thread stops at a number beyond the last part.
    """
    return np.int64(add(words_5, _TAKEN, 1))


def run(kernel: Callable[..., object], threads: int, *args: Any) -> None:
    """Call kernel(t, threads, barrier_5, *args) in every thread t; the caller is thread 0."""
    barrier_5 = np.zeros(WORDS, np.int32)
    if threads == 1:
        kernel(0, threads, barrier_5, *args)
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(kernel, t, threads, barrier_5, *args) for t in range(1, threads)]
        kernel(0, threads, barrier_5, *args)
        for other in others:
            other.result()
