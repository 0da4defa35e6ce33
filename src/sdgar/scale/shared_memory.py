"""Memory that the workers of one machine share.

It is a file in memory (in /dev/shm, or else where temporary files are), which all of them map. The
file loses its name as soon as all have opened it, so the system takes the memory back with the
last process, however that ends. Each worker locks one byte of the file while it lives: the system
unlocks it when the worker ends, even by ``kill -9``, and another one that watches this byte raises
an alarm.
"""

from __future__ import annotations

import fcntl
import logging
import math
import mmap
import os
import socket
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import ResourceError

if TYPE_CHECKING:
    from sdgar.scale.workers import Workers

Shapes = Mapping[str, tuple[tuple[int, ...], Any]]
"""The shape and the type of each array, by its name."""
_MEMORY, _BOOT_ID = Path("/dev/shm"), Path("/proc/sys/kernel/random/boot_id")
_LINE = 64  # bytes of a cache line
_LOGGER = logging.getLogger("sdgar")
_ALARM = 4
"""The index of the word that an alarm sets, ``ALARM`` of ``kernels/numba/threads.py``."""
_CHECK_SECONDS = 0.25
"""The seconds between two checks of whether another worker lives."""


def memory_name() -> str:
    """Return a name of this machine's memory: processes with the same name can share it.

    Containers on one machine may have separate memory.
    """
    try:
        name = _BOOT_ID.read_text().strip()
    except OSError:
        name = socket.gethostname()
    return " ".join([name, *(str(folder.stat().st_dev) for folder in _folders())])


class SharedArrays:
    """Arrays that the workers of one machine share; with one worker they are private."""

    def __init__(self, workers: Workers, shapes: Shapes) -> None:
        """Make arrays that are all 0; every worker calls this with the same shapes."""
        self._workers = workers
        sizes = [math.prod(shape) * np.dtype(kind).itemsize for shape, kind in shapes.values()]
        starts = np.cumsum([_LINE, *(-(-size // _LINE) * _LINE for size in sizes)]).tolist()
        self._file: int | None = None
        workers.meet()  # the first one may have been busy
        size = starts[-1]
        memory, path = self._mapped(size) if workers.here > 1 else (mmap.mmap(-1, size), None)
        buffer = np.frombuffer(memory, np.uint8)
        workers.meet()  # all have opened it
        if path is not None and workers.local == 0:
            path.unlink()
        self.words: NDArray[np.int32] = buffer[:_LINE].view(np.int32)
        """The words by which the workers of this machine wait for each other."""
        self.arrays: dict[str, NDArray[Any]] = {
            name: buffer[start : start + size].view(kind).reshape(shape)
            for (name, (shape, kind)), start, size in zip(
                shapes.items(), starts[:-1], sizes, strict=True
            )
        }
        """The arrays by name, each at the start of a cache line."""

    def _mapped(self, size: int) -> tuple[mmap.mmap, Path]:
        """Map a new file that the first worker of this machine makes."""
        workers = self._workers
        key = f"common/{workers.machine}/{workers.take_number()}"
        path = _reserved(size, workers.store, key) if workers.local == 0 else _path_of(workers, key)
        file = self._file = os.open(path, os.O_RDWR)
        weakref.finalize(self, os.close, file)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, workers.local)
        return mmap.mmap(file, size), path

    def alarm(self) -> None:
        """Stop all waiting on this machine."""
        self.words[_ALARM] = 1

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise an alarm if the next worker of this machine ends meanwhile, or this one fails."""
        if self._file is None:
            yield
            return
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_CHECK_SECONDS):
                if self._next_is_gone():
                    self.alarm()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        except BaseException:
            self.alarm()
            raise
        finally:
            ended.set()
            watching.join()

    def _next_is_gone(self) -> bool:
        assert self._file is not None
        byte = (self._workers.local + 1) % self._workers.here
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError:  # it is locked
            return False
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)
        return True


def _folders() -> list[Path]:
    """Return the folders for shared files, the best one first."""
    temporary = Path(tempfile.gettempdir())
    return [_MEMORY, temporary] if os.access(_MEMORY, os.W_OK) else [temporary]


def _reserved(size: int, store: Any, key: str) -> Path:
    """Reserve a file of a size, and store its path under ``key``."""
    for folder in _folders():
        file, name = tempfile.mkstemp(prefix="sdgar-", dir=folder)
        path = Path(name)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, size)
            else:  # macOS
                os.ftruncate(file, size)
        except OSError:
            path.unlink()
            continue
        finally:
            os.close(file)
        if folder != _folders()[0]:
            _LOGGER.warning(
                "%s bytes do not fit in %s, so workers share a file in %s instead.",
                f"{size:,}", _folders()[0], folder,
            )  # fmt: skip
        store.set(key, name)
        return path
    with suppress(RuntimeError):
        store.set(key, "")
    raise ResourceError(
        f"the workers of this machine share {size:,} bytes of memory, which do not fit in "
        f"{' or '.join(map(str, _folders()))}. Free some space, set TMPDIR to a folder with more, "
        "or start fewer workers.",
        code="no_common_memory",
    )


def _path_of(workers: Workers, key: str) -> Path:
    """Return the file that the first worker of this machine has made."""
    name = workers.store.get(key).decode()
    if not name:
        raise workers.lost("there is no memory to share")
    return Path(name)
