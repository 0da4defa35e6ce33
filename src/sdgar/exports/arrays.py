"""Read factors from files of arrays: what implicit saves, and any other .npz of that form."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import DataError
from sdgar.storage.files import disk_error
from sdgar.storage.sealed import open_file

NAMES = ("user_factors", "item_factors", "item_biases", "users", "items")
"""The arrays that are looked at; a file may hold others, which are not read."""


class Arrays(NamedTuple):
    """The arrays of a file."""

    user_factors: NDArray[Any]
    """The vector of each user."""
    item_factors: NDArray[Any]
    """The vector of each item."""
    item_biases: NDArray[Any] | None
    """The bias of each item."""
    users: NDArray[Any] | None
    """The ids of users, in the order of their vectors."""
    items: NDArray[Any] | None
    """The ids of items, in the order of their vectors."""


def read_arrays(path: Path) -> Arrays:
    """Read the arrays of an .npz file, such as ``model.save`` of implicit writes; no code runs."""
    try:
        with open_file(path) as raw:
            loaded = np.load(raw, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise _not_factors(path, "it holds one array, and several with names are needed")
            found = {name: loaded[name] for name in NAMES if name in loaded.files}
            held = ", ".join(loaded.files[:8]) or "nothing"
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise _not_factors(path, str(error).rstrip(".")) from error
    except OSError as error:
        raise disk_error(path, error) from error
    for name in NAMES[:2]:
        if name not in found:
            raise _not_factors(path, f"it has no array {name!r}; it holds {held}")
    return Arrays(*(found.get(name) for name in NAMES))  # type: ignore[arg-type]


def _not_factors(path: Path, why: str) -> DataError:
    return DataError(
        f"{path} holds no factors that can be read: {why}. Write an .npz file with the arrays "
        "user_factors and item_factors, as implicit's model.save does.",
        code="bad_factors",
    )
