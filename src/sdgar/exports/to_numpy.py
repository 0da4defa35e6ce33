"""Write a model as arrays of NumPy, which load without pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.errors import DataError
from sdgar.exports.export import Contents, Files


def write_numpy(contents: Contents, folder: Path) -> Files:
    """Write ids, vectors, biases, weights and histories, each as a file .npy."""
    files = write_ids(contents, folder)
    if contents.has_vectors:
        files |= {
            "user_vectors.npy": _save(folder, "user_vectors", contents.user_UD, "the vectors u"),
            "item_vectors.npy": _save(folder, "item_vectors", contents.item_ID, "the vectors v"),
            "item_biases.npy": _save(folder, "item_biases", contents.bias_I, "the biases b"),
        }
    if contents.weight_II is not None:
        w = contents.weight_II
        files |= {
            "weights_start.npy": _save(
                folder, "weights_start", w.indptr.astype(np.int64),
                "the entries of w of item j: from start[j] to start[j + 1] - 1",
            ),
            "weights_item.npy": _save(
                folder, "weights_item", w.indices.astype(np.int64),
                "the item to whose score each entry adds, by its number",
            ),
            "weights.npy": _save(folder, "weights", w.data, "the weight of each entry"),
        }  # fmt: skip
        files |= write_history(contents.history, folder, "history", "items of context c")
    return files | write_history(contents.known, folder, "known", "items that lists leave out")


def write_ids(contents: Contents, folder: Path) -> Files:
    """Write the ids of users and items in the order of their numbers."""
    return {
        f"{side}s.npy": _save(folder, f"{side}s", _array_of_ids(ids, side), f"the ids of {side}s")
        for side, ids in (("user", contents.users), ("item", contents.items))
    }


def _array_of_ids(ids: Ids, what: str) -> NDArray[Any]:
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


def write_history(history: History, folder: Path, name: str, what: str) -> Files:
    """Write a history as two arrays."""
    start, item = f"{name}_start", f"{name}_item"
    return {
        f"{start}.npy": _save(
            folder, start, history.indptr_U1, f"{what}: from start[c] to start[c + 1] - 1"
        ),
        f"{item}.npy": _save(folder, item, history.items_E, "the numbers of these items"),
    }


def _save(folder: Path, name: str, array: NDArray[Any], what: str) -> str:
    """Write one array, and return its description."""
    np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return what
