"""Item weights from shards on disk, in bounded memory.

    WORK/item-weights/      appears when everything in it is complete
        history.start.npy   the rows of user u are start[u] to start[u + 1] - 1, shard by shard
        history.item.npy    the item of each row
        neighbour.start.npy the weights of item j are start[j] to start[j + 1] - 1
        neighbour.row.npy   the item to whose score each weight contributes
        neighbour.weight.npy the weights W

Until then there is a temporary folder next to it, which also holds the users of each item (4 bytes
a row) and the neighbours of each item (12 k bytes an item). What a killed process leaves behind is
removed by the next one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sdgar.arguments import a_path, of_kind
from sdgar.data.history import History
from sdgar.maths.neighbours import Neighbourhoods, OnThreads, Progress, block_of
from sdgar.maths.rows import Rows
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.saved import check_csr
from sdgar.scale.shards import Shards
from sdgar.show import progress as shown_progress
from sdgar.storage import folders
from sdgar.storage.arrays import MappedArrays
from sdgar.storage.files import disk_error

FOLDER = "item-weights"
"""The name of the folder of a model's arrays within the work folder."""
_KEPT = ("history.start", "history.item", "neighbour.start", "neighbour.row", "neighbour.weight")
_FILES = [f"{name}.npy" for name in _KEPT]


def item_weights_from_shards(
    shards: Shards,
    rule: Neighbourhoods,
    *,
    work: str | Path,
    memory: int,
    verbose: bool | None = None,
) -> LocalItemWeights:
    """Solve for the weights from rows on disk, on the CPU, in bounded memory.

    Users are numbered shard by shard. ``LocalItemWeights.solved`` gives bit-identical weights for
    the same rows in this order. The arrays of the model stay in files in the folder ``work``,
    mapped into memory; an older model there is replaced.

    ``memory`` is the most bytes that are allocated to solve for the weights. Pages of mapped
    files come on top, which the system keeps while no other process needs the RAM.
    """
    of_kind("shards", shards, Shards, "Open them with sdgar.Shards.open(folder).")
    of_kind("memory", memory, int, "Give a number of bytes, such as 4 << 30.")
    n_items = shards.n_items
    place = folders.require_free(
        a_path("work", work) / FOLDER, overwrite=True, own=lambda _: _FILES, what="the item weights"
    )
    block = block_of(memory, n_items, rule.k)
    try:
        with (
            shown_progress.working("weights between items", verbose=verbose) as progress,
            folders.whole(place, replace=True) as temporary,
        ):
            files = MappedArrays(temporary)
            items_of = _joined(shards, files, progress)
            weight_II = OnThreads(
                rule, items_of, n_items, block=block, place=files, progress=progress
            ).weights()
            files.keep(_KEPT)
    except OSError as error:
        raise disk_error(place, error) from error
    return LocalItemWeights(History(items_of.start_R1, items_of.column_E), weight_II)


def _joined(shards: Shards, files: MappedArrays, progress: Progress) -> Rows:
    """Write the rows of all shards one after the other."""
    n_rows = shards.n_rows
    start_U1 = files.array("history.start", shards.n_users + 1, np.int64)
    item_E = files.array("history.item", n_rows, np.int32)
    start_U1[0] = user = row = 0
    for shard in shards:
        check_csr(shard.folder, "indptr", shard.indptr_U1, shard.items_E, shards.n_items)
        users, rows = slice(user + 1, user + shard.n_users + 1), slice(row, row + len(shard))
        np.add(shard.indptr_U1[1:], row, out=start_U1[users])
        item_E[rows] = shard.items_E
        user, row = users.stop - 1, rows.stop
        progress("rows", row, n_rows)
    return Rows(start_U1, item_E)
