"""What all exports of a model are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.errors import DataError, ResourceError
from sdgar.exports.linear import Linear

Files = dict[str, str]
"""What each file of an export holds, by its name."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A model in the form that other programs can compute with."""

    linear: Linear
    """The vectors, biases and weights between items."""
    users: Ids
    """The ids of contexts; the place of an id is the number of the context."""
    items: Ids
    """The ids of items; the place of an id is the number of the item."""
    history: History
    """The items that each context has, by which weights between items count."""
    known: History
    """All items that lists leave out: those of the history, and what users do not like."""


def arrays_of_ids(ids: Ids, what: str) -> NDArray[Any]:
    """Return ids as an array that NumPy saves without pickle; raise if an id would change."""
    if ids.kind != "text":
        return ids.values
    made = ids.values.astype(str)
    changed = np.flatnonzero(made != ids.values)
    if len(changed):
        raise DataError(
            f"the {what} id {ids.values[changed[0]]!r} ends with a NUL character, which NumPy's "
            "texts lose. Export as parquet instead.",
            code="nul_byte",
        )
    return made


def missing_package(name: str, to: str) -> ResourceError:
    """Build the error for a format whose package is not installed."""
    return ResourceError(
        f"an export to {to} needs the package {name}, which is not installed. Install it with pip "
        'install "sdgar[export]".',
        code="missing_package",
    )
