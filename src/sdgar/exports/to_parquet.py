"""Write a model as Parquet tables: vectors, weights between items, and histories, by raw ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.data.tables import to_table, write_pieces
from sdgar.exports.export import Contents, Files

_PIECE = 1 << 21
"""How many rows of a long table are in memory at once."""


def write_parquet(contents: Contents, folder: Path) -> Files:
    """Write users, items, weights and known pairs, each as a table."""
    users, items = contents.users, contents.items
    of_users: dict[str, Any] = {"user": users.values}
    of_items: dict[str, Any] = {"item": items.values}
    if contents.has_vectors:
        of_users["vector"] = contents.user_UD
        of_items |= {"vector": contents.item_ID, "bias": contents.bias_I}
    for side, columns, ids in (("user", of_users, users), ("item", of_items, items)):
        types = {side: ids.kind} | ({"vector": "vector"} if contents.has_vectors else {})
        write_pieces([to_table(columns, types=types)], folder / f"{side}s.parquet")
    files: Files = {
        "users.parquet": f"{', '.join(of_users)}: a row for each context",
        "items.parquet": f"{', '.join(of_items)}: a row for each item",
    }
    if contents.weight_II is not None:
        write_pieces(_weights(contents.weight_II, items), folder / "weights.parquet")
        files["weights.parquet"] = "item, for, weight: what having an item says for another one"
    write_pieces(_pairs(contents), folder / "known.parquet")
    files["known.parquet"] = (
        "user, item, liked: the pairs that lists leave out; weights count for liked ones"
    )
    return files


def _weights(weight_II: Any, items: Ids) -> Iterator[Any]:
    """Yield the entries of W in pieces, row by row."""
    types = {"item": items.kind, "for": items.kind}
    for first, last in _pieces(weight_II.indptr):
        span = slice(weight_II.indptr[first], weight_II.indptr[last])
        item_E = np.repeat(np.arange(first, last), np.diff(weight_II.indptr[first : last + 1]))
        columns = {"item": items.at(item_E), "for": items.at(weight_II.indices[span])}
        yield to_table({**columns, "weight": weight_II.data[span]}, types=types)


def _pairs(contents: Contents) -> Iterator[Any]:
    """Yield the pairs that lists leave out in pieces, and whether they are of the history."""
    users, items, known = contents.users, contents.items, contents.known
    types = {"user": users.kind, "item": items.kind, "liked": "bool"}
    n_items = len(items)
    for first, last in _pieces(known.indptr_U1):
        own = [one.rows(np.arange(first, last)) for one in (known, contents.history)]
        pairs, liked = (one.users_E * n_items + one.items_E for one in own)
        yield to_table(
            {
                "user": users.at(own[0].users_E + first),
                "item": items.at(own[0].items_E),
                "liked": np.isin(pairs, liked),
            },
            types=types,
        )


def _pieces(start_R1: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last row of pieces that have few entries; there is at least one."""
    first, rows = 0, len(start_R1) - 1
    while True:
        most = int(np.searchsorted(start_R1, start_R1[first] + _PIECE, side="right")) - 1
        last = min(rows, max(first + 1, most))
        yield first, last
        if last >= rows:
            return
        first = last
