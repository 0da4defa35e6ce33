"""One process compiles a kernel, and others that need the same one load what it has kept.

The workers of one training need the same kernels at the same moment. Each would compile them for
itself, on cores that the others need: n workers on one core would take n times as long to start.

Who compiles a kernel for some types has the lock (flock) of a small file beside the compiled code
until that is kept. The system releases it when a process ends, however it ends. Nobody waits for
longer than ``PATIENCE``, while it has Numba's own lock, or where files cannot be locked: then the
kernel is compiled here as well, which costs time and nothing else.
"""

from __future__ import annotations

import gc
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

PATIENCE = 60.0
"""The seconds that a process waits for another one that compiles the same kernel."""
_LOOK_AGAIN = 0.02
"""The seconds between two attempts at a lock: a wait in the system would have no bound."""


def compile_in_turn(kernel: Any) -> None:
    """Let one process at a time compile a kernel, and search for no garbage meanwhile."""
    compile_here = kernel.compile

    def compile_or_wait(signature: Any) -> Any:
        # Whoever compiles what calls this kernel has a turn already, and must not wait now.
        if global_compiler_lock.is_locked() or _is_kept(kernel, signature):
            return compile_here(signature)
        lock = _lock_of(kernel, signature)
        with nullcontext() if lock is None else turn(lock), _no_search_for_garbage():
            return compile_here(signature)  # or load what was kept meanwhile

    kernel.compile = compile_or_wait


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until nobody else has the lock of a file or folder, for a while, and then have it."""
    try:
        file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:  # kept by somebody who lets others only read
        yield
        return
    taken = False
    try:
        taken = _take(file)
        yield
    finally:
        # A process that was forked meanwhile has this file open too, so to close it is not enough.
        if taken:
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _take(file: int) -> bool:
    """Lock an open file; give up when patience ends, or where files cannot be locked."""
    until = time.monotonic() + PATIENCE
    while fcntl is not None and time.monotonic() < until:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_AGAIN)
        except OSError:  # a file system without locks
            return False
        else:
            return True
    return False


def _is_kept(kernel: Any, signature: Any) -> bool:
    """Return whether there is a file of the kernel for these types, good or bad."""
    if not isinstance(kernel._cache, FunctionCache):
        return False
    key = kernel._cache._index_key(signature, kernel.targetctx.codegen())
    files = kernel._cache._cache_file
    try:
        return Path(files._data_path(files._load_index()[key])).exists()
    except Exception:  # not there; or damaged, which is told of when it is loaded
        return False


def _lock_of(kernel: Any, signature: Any) -> Path | None:
    """Return the file whose lock is the turn to compile; none for a kernel that is not kept."""
    if not isinstance(kernel._cache, FunctionCache):
        return None
    types = hashlib.sha256(str(signature).encode()).hexdigest()[:16]
    return Path(kernel._cache.cache_path) / f"{kernel._cache._impl.filename_base}.{types}.lock"


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Search for none: nearly all that a compiler makes is used until it ends."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
