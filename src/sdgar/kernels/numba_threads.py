"""Threads that meet: a barrier and a prefetch for Numba kernels, and the pool that runs them.

A kernel is started once in every thread and meets the others at barriers, which costs less than
a microsecond; a parallel region of Numba's own costs some hundred on a busy machine, and takes
ten times as long to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from sdgar.kernels.compiled import inner

_SPINS = 2000
"""Looks at the barrier before the core is offered to others: about 10 microseconds."""


def _word(builder: Any, context: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Pointer to one int64 of an array."""
    struct = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, struct, [index], wraparound=False)


def _require_int64(array: Any) -> None:
    if not (isinstance(array, types.Array) and array.dtype == types.int64):
        msg = "a barrier is an array of int64"
        raise TypingError(msg)


@intrinsic
def _add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Atomic add; returns what was there before."""
    _require_int64(array)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _word(builder, context, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", pointer, args[2], "acq_rel")

    return types.int64(array, types.int64, types.int64), code


@intrinsic
def _load(typing_context: Any, array: Any, index: Any) -> Any:
    _require_int64(array)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _word(builder, context, signature.args[0], args[0], args[1])
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.int64), code


@intrinsic
def _yield_core(typing_context: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), code


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
def prefetch_row(address: Any, row: Any, row_bytes: Any, used: Any) -> Any:
    """Ask for the first ``used`` bytes of a row of a table."""
    start = address + np.uint64(row) * row_bytes
    for offset in range(np.uint64(0), used, np.uint64(64)):
        prefetch(start + offset)
    return None


@inner
def meet(barrier_2: Any, threads: Any) -> Any:
    """Wait until all threads are here; what they wrote before is seen after."""
    if threads == 1:
        return None
    generation = _load(barrier_2, 1)
    if _add(barrier_2, 0, 1) == threads - 1:
        _add(barrier_2, 0, -threads)
        _add(barrier_2, 1, 1)
    else:
        spins = 0
        while _load(barrier_2, 1) == generation:
            spins += 1
            if spins > _SPINS:
                _yield_core()
    return None


def run(kernel: Callable[..., object], threads: int, *args: Any) -> None:
    """Call kernel(t, threads, barrier_2, *args) in every thread t, and wait for all."""
    barrier_2 = np.zeros(2, np.int64)
    if threads == 1:
        kernel(0, 1, barrier_2, *args)
        return
    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(kernel, t, threads, barrier_2, *args) for t in range(threads)]
        for job in jobs:
            job.result()
