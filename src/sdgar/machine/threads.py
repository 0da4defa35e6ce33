"""Run parts of work by threads, as many as other processes leave cores for.

Each thread may compute matrix products, for which the BLAS library behind NumPy would start further
threads: ``one_blas_thread`` keeps it from that.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from sdgar.machine import cores

_PARTS_A_THREAD = 8
"""Parts of work for each thread: few enough to cost nothing, and enough for other threads to take
over most of the work of a thread that lost its core."""
_WORTH_THREADS = 4096
"""Numbers to compute that are worth starting threads for, which takes a tenth of a millisecond."""
_blas_lock = threading.Lock()
_blas_users = 0
"""How many threads are in ``one_blas_thread``."""
_blas_threads: list[int] = []
"""The threads of each BLAS library outside of ``one_blas_thread``."""


def run_parts(
    kernel: Callable[..., object],
    rows: int,
    numbers: int,
    *args: Any,
    at_once: int | None = None,
    pool_of: Callable[[int], Executor] | None = None,
) -> None:
    """Call kernel(first, last, *args) for parts of the rows, each taken by a thread that is free.

    A thread that has to wait for a core delays one part, not an equal share of all rows; and it
    takes a part only while other processes leave a core for it. ``numbers`` is how many numbers
    are computed in all. ``at_once`` sets the rows of a part, for a kernel whose last bits depend
    on them. ``pool_of`` returns so many threads that are kept for later; without it threads are
    started here.
    """
    threads = min(cores.threads(), rows) if numbers >= _WORTH_THREADS else 1
    if at_once is not None:
        edges = [*range(0, rows, at_once), rows]
    elif threads > 1:
        parts = min(threads * _PARTS_A_THREAD, rows)
        edges = [rows * p // parts for p in range(parts + 1)]
    else:
        edges = [0, rows]
    left = itertools.pairwise(edges)
    if threads <= 1:
        for first, last in left:
            kernel(first, last, *args)
        return
    kept = ThreadPoolExecutor(threads - 1) if pool_of is None else nullcontext(pool_of(threads - 1))
    with kept as pool:
        _PartsOfWork(lambda part: kernel(*part, *args), left, threads, pool).run()


class _PartsOfWork:
    """Parts of work that threads take one by one; the calling thread is the first of them."""

    def __init__(
        self,
        work: Callable[[tuple[int, int]], object],
        left: Iterator[tuple[int, int]],
        threads: int,
        pool: Executor,
    ) -> None:
        self._work, self._left, self._threads, self._pool = work, left, threads, pool
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._started: list[Future[None] | None] = [None] * threads

    def run(self) -> None:
        """Return when all parts are done, or raise what a part has raised."""
        try:
            self._do_parts(0)
        finally:
            self._ended.set()  # after Ctrl-C, no thread takes another part
            others = [one for one in self._started if one is not None and not one.cancel()]
            wait(others)
        for other in others:
            other.result()

    def _do_parts(self, t: int) -> None:
        """Do parts while there are some, and a core for this thread."""
        with cores.one_thread():
            while not self._ended.is_set() and t < (now := cores.threads_now(self._threads)):
                if t == 0:
                    self._start(now)
                with self._lock:
                    part = next(self._left, None)
                if part is None:
                    return
                try:
                    self._work(part)
                except BaseException:
                    self._ended.set()
                    raise

    def _start(self, now: int) -> None:
        """Start threads 1 … now - 1, for which there is a core now."""
        for t in range(1, now):
            before = self._started[t]
            if before is None or (before.done() and not self._ended.is_set()):
                self._started[t] = self._pool.submit(self._do_parts, t)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit each matrix product to one thread, so that it is bit-identical on every machine.

    The limit is one of the process: it lasts until the last thread that needs it has left.
    """
    global _blas_users, _blas_threads
    libraries = _blas_libraries()
    with _blas_lock:
        if _blas_users == 0:
            _blas_threads = [library.num_threads for library in libraries]
            for library in libraries:
                library.set_num_threads(1)
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                for library, threads in zip(libraries, _blas_threads, strict=True):
                    library.set_num_threads(threads)


@cache
def _blas_libraries() -> list[Any]:
    """Return the BLAS libraries that are loaded; NumPy's is among them."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers  # type: ignore[no-any-return]
