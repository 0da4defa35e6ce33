"""How much memory lists of many users take, beside what the system keeps of mapped files."""

from __future__ import annotations

from sdgar.data.ids import Ids
from sdgar.errors import ResourceError
from sdgar.machine import cores
from sdgar.ranking.sweep import is_worth_it
from sdgar.recommend.recommender import PIECE, Recommender

_LIBRARIES = 400 << 20
"""The bytes of the interpreter and of the libraries that lists need."""
_ROW = 1_000
"""The bytes of a row of an answer while a piece is put together: plain values, and two tables."""
_TEXT = 160
"""The bytes of an id that is a text: itself, its place, and what finds it."""
_SCORES = 128 << 20
"""The bytes that each thread takes for blocks of scores."""
_MEMORY = 4
"""The bytes of an item that each thread takes for a memory, where lists are found by a sweep."""
_TABLE = 150
"""The bytes of an item in the table of a sweep: up to 128 integers, and what bounds need."""


def bytes_needed(model: Recommender, n_users: int, k: int) -> int:
    """Return about how many bytes of memory the lists of some users take."""
    threads, n_items = cores.threads(), len(model.items)
    rows = min(PIECE, n_users * min(k, n_items))
    each = _SCORES
    table = 0
    if is_worth_it(n_users, n_items):
        each, table = _MEMORY * n_items, _TABLE * n_items
    ids = _bytes_of(model.users) + _bytes_of(model.items) + 100 * min(n_users, len(model.users))
    return _LIBRARIES + ids + table + threads * each + _ROW * rows


def require_within(memory: int, model: Recommender, n_users: int, k: int) -> None:
    """Raise if the lists of some users take more memory than may be used."""
    needed = bytes_needed(model, n_users, k)
    if needed > memory:
        raise ResourceError(
            f"the lists of {n_users:,} users take about {needed / 2**20:,.0f} MiB of memory, and "
            f"--ram allows {memory / 2**20:,.0f}. Allow more, or set OMP_NUM_THREADS to fewer "
            "threads.",
            code="out_of_memory",
        )


def _bytes_of(ids: Ids) -> int:
    return len(ids) * (_TEXT if ids.kind == "text" else 16)
