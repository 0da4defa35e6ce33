"""Telling of ids that a model does not know: in a warning, or in an error where that is wanted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids, plain
from sdgar.errors import SdgarWarning, UsageError

FALLBACKS = ("popular", "skip", "error")
"""Users whom the model does not know get what is most popular, are left out, or are refused."""
MARKS = ("mark", "skip", "error")
"""Where nothing can stand for an answer, an unknown id is marked, left out, or refused."""
INSTEAD = {
    "popular": "They get what is most popular.",
    "skip": "They are left out.",
    "mark": "They are marked as unknown.",
}
"""What becomes of unknown ids by each fallback, as a warning says it."""


def index_of(ids: Ids, asked: list[Any], what: str, fallback: str) -> NDArray[np.int64]:
    """Find the number of each id, -1 for unknown ones, which are told of or refused."""
    index_T = ids.index_of(asked)
    tell([asked[place] for place in np.flatnonzero(index_T < 0)], ids, what, fallback)
    return index_T


def tell(unknown: list[Any], ids: Ids, what: str, fallback: str) -> None:
    """Warn of ids that the model does not know, or refuse them."""
    if not unknown:
        return
    said = (
        f"{_counted(unknown, f'{what} id is', f'{what} ids are')} unknown to the model: "
        f"{_some(unknown)}. It knows {len(ids):,} {what}s with ids such as {_some(ids.values[:3])}."
    )
    if fallback == "error":
        raise UsageError(said, code=f"unknown_{what}")
    warn(f"{said} {INSTEAD[fallback]}")


def without_items(users: NDArray[Any]) -> str:
    """Return which new users have no item that the model knows."""
    who = _counted(users, "new user has", "new users have")
    return f"{who} no item that the model knows: {_some(users)}."


def warn(text: str) -> None:
    """Warn whoever asks."""
    warnings.warn(text, SdgarWarning, stacklevel=4)


def _counted(ids: Sized, one: str, several: str) -> str:
    return f"1 {one}" if len(ids) == 1 else f"{len(ids):,} {several}"


def _some(ids: Sequence[Any] | NDArray[Any]) -> str:
    """Write out the first few ids of a list."""
    shown = ", ".join(repr(plain(one)) for one in ids[:5])
    return f"{shown} and others" if len(ids) > 5 else shown
