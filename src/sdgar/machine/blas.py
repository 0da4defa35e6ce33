"""Limit the threads of the BLAS library behind NumPy, while several threads multiply at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit each matrix product to one thread, so that it is bit-identical on every machine.

    The limit is one of the process: it lasts until the last thread that needs it has left.
    """
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _limit = None


@cache
def _controller() -> Any:
    """Return the control of the libraries that are loaded; NumPy's is among them."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
