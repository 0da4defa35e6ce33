"""Write interactions that are in memory as shards, and put shards together in memory again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import at_least
from sdgar.data.history import History
from sdgar.data.id_file import id_arrays
from sdgar.data.ids import Ids, common_kind
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER
from sdgar.errors import UsageError
from sdgar.scale.shards.files import write_arrays
from sdgar.scale.shards.hashing import shard_of
from sdgar.scale.shards.manifest import (
    Part,
    folder_of,
    is_shards,
    write_described,
    write_part,
)
from sdgar.storage import folders
from sdgar.storage.whole_files import disk_error

if TYPE_CHECKING:
    from sdgar.scale.shards.shards import Shards

MOST_SHARDS = 65_536
"""The most shards of a folder."""


def require_shards(n_shards: Any) -> int:
    """Raise if this cannot be the number of shards."""
    at_least("shards", n_shards, 1)
    if n_shards > MOST_SHARDS:
        raise UsageError(
            f"shards must be at most {MOST_SHARDS:,}, got {n_shards:,}.", code="bad_option"
        )
    return int(n_shards)


def require_free(path: str | Path, *, overwrite: bool) -> Path:
    """Return the place of a folder of shards; raise if something else lies there."""
    place = folders.place_of(path)
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return place
    if not is_shards(place):
        raise UsageError(
            f"{place} is there and is no folder of shards, so it is left as it is. Choose another "
            "place.",
            code="out_foreign",
        )
    if not overwrite:
        raise UsageError(
            f"{place} exists. Choose another place, or replace it with --overwrite "
            "(overwrite=True).",
            code="out_exists",
        )
    return place


def write(data: Interactions, path: str | Path, n_shards: int, *, overwrite: bool) -> Path:
    """Write interactions as a folder of shards, whole or not at all."""
    require_shards(n_shards)
    require_plain(data)
    place = require_free(path, overwrite=overwrite)
    shard_U = shard_of(data.users.values, n_shards)
    try:
        with folders.whole(place, replace=overwrite) as temporary:
            files = write_arrays(temporary, id_arrays(data.items, "items"))
            parts = [
                _write_shard(data, np.flatnonzero(shard_U == number), temporary, number, n_shards)
                for number in range(n_shards)
            ]
            write_described(
                temporary,
                kinds={"users": data.users.kind, "items": data.items.kind},
                items=data.n_items,
                parts=parts,
                account=data.account,
                weights=data.weight_E is not None,
                times=data.time_E is not None,
                files=files,
                about={},
            )
    except OSError as error:
        raise disk_error(place, error) from error
    return place


def require_plain(data: Interactions) -> None:
    """Raise if interactions have what shards do not keep."""
    if data.context != USER:
        raise UsageError(
            f"shards hold the rows of users, and a context is {', '.join(data.context)} here. "
            "Leave --context out.",
            code="bad_context",
        )
    if data.user_features is not None or data.item_features is not None:
        raise UsageError(
            "shards do not keep features. Write the rows without them, and join features later.",
            code="unused_option",
        )


def _write_shard(
    data: Interactions, users_S: NDArray[np.int64], folder: Path, number: int, of: int
) -> Part:
    """Write the rows of some users as one shard."""
    row_E, indptr_S1 = _rows_of(data.indptr_U1, users_S)
    arrays: dict[str, NDArray[Any]] = {
        "indptr": indptr_S1,
        "items": data.items_E[row_E],
        "rank": users_S,
        **id_arrays(Ids(data.users.at(users_S)), "users"),
    }
    if data.weight_E is not None:
        arrays["weight"] = data.weight_E[row_E]
    if data.time_E is not None:
        arrays["time"] = data.time_E[row_E]
    if data.seen is not None:
        row_E, indptr_S1 = _rows_of(data.seen.indptr_U1, users_S)
        times = None if data.seen_time_E is None else data.seen_time_E[row_E]
        neutral = None if data.seen_neutral_E is None else data.seen_neutral_E[row_E]
        arrays |= seen_arrays(History(indptr_S1, data.seen.items_E[row_E]), times, neutral)
    return write_shard(folder, number, of, arrays)


def seen_arrays(
    seen: History | None, time_E: NDArray[np.int64] | None, neutral_E: NDArray[np.bool_] | None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of pairs that users know and do not like; nothing if there are none."""
    if seen is None or not len(seen.items_E):
        return {}
    arrays: dict[str, NDArray[Any]] = {"seen.indptr": seen.indptr_U1, "seen.items": seen.items_E}
    if time_E is not None:
        arrays["seen.time"] = time_E
    if neutral_E is not None and neutral_E.any():
        arrays["seen.neutral"] = neutral_E
    return arrays


def write_shard(folder: Path, number: int, of: int, arrays: Mapping[str, NDArray[Any]]) -> Part:
    """Write the arrays of one shard and its manifest."""
    place = folder_of(folder, number)
    place.mkdir()
    files = write_arrays(place, arrays)
    sizes = (len(arrays["rank"]), len(arrays["items"]), len(arrays.get("seen.items", ())))
    part = write_part(place, number, of, sizes, files)
    folders.sync(place)
    return part


def _rows_of(
    indptr_U1: NDArray[np.int64], users_S: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of some users one after the other, and where those of each begin."""
    count_S = np.diff(indptr_U1)[users_S]
    indptr_S1 = np.concatenate(([0], np.cumsum(count_S)))
    shift_S = indptr_U1[users_S] - indptr_S1[:-1]
    return np.arange(indptr_S1[-1]) + np.repeat(shift_S, count_S), indptr_S1


def joined(shards: Shards, work: Path | None = None) -> Interactions:
    """Return the rows of all shards as one load in memory has them.

    With ``work`` the arrays of rows are mapped from files of that folder, which are written here.
    """

    def room(name: str, dtype: type) -> NDArray[Any]:
        if work is None or not shards.n_rows:
            return np.empty(shards.n_rows, dtype)
        work.mkdir(parents=True, exist_ok=True)
        return np.memmap(work / f"{name}-{shards.n_rows}.rows", dtype, "w+", shape=(shards.n_rows,))

    indptr_U1 = _indptr(shards, [(shard.rank_U, shard.indptr_U1) for shard in shards])
    users: list[NDArray[Any]] = [np.empty(0)] * shards.n_shards
    items_E = room("items", np.int32)
    weight_E = room("weight", np.float32) if shards.has_weights else None
    time_E = room("time", np.int64) if shards.has_times else None
    for shard in shards:
        users[shard.number] = shard.users.values
        place_E = _rows_of(indptr_U1, shard.rank_U)[0]
        items_E[place_E] = shard.items_E
        if weight_E is not None and shard.weight_E is not None:
            weight_E[place_E] = shard.weight_E
        if time_E is not None and shard.time_E is not None:
            time_E[place_E] = shard.time_E
    rank = np.concatenate([shard.rank_U for shard in shards])
    ids = np.concatenate(common_kind(*users))
    return Interactions(
        users=Ids(ids[np.argsort(rank, kind="stable")]),
        items=shards.items,
        indptr_U1=indptr_U1,
        items_E=items_E,
        account=shards.account,
        weight_E=weight_E,
        time_E=time_E,
        **_joined_seen(shards),
    )


def row_numbers(shards: Shards) -> NDArray[np.int64]:
    """Return the number that the first row of each user has in a load in memory, by rank."""
    return _indptr(shards, [(shard.rank_U, shard.indptr_U1) for shard in shards])[:-1]


def _joined_seen(shards: Shards) -> dict[str, Any]:
    """Return the pairs that users know and do not like, of all shards, and what is told of them."""
    known = [(shard, shard.seen) for shard in shards if shard.seen is not None]
    if not known:
        return {}
    indptr_U1 = _indptr(shards, [(shard.rank_U, seen.indptr_U1) for shard, seen in known])
    items_E = np.empty(indptr_U1[-1], np.int32)
    timed = all(shard.seen_time_E is not None for shard, _ in known)
    time_E = np.empty(indptr_U1[-1], np.int64) if timed else None
    neutral_E = np.zeros(indptr_U1[-1], np.bool_)
    for shard, seen in known:
        place_E = _rows_of(indptr_U1, shard.rank_U)[0]
        items_E[place_E] = seen.items_E
        if time_E is not None and shard.seen_time_E is not None:
            time_E[place_E] = shard.seen_time_E
        if shard.seen_neutral_E is not None:
            neutral_E[place_E] = shard.seen_neutral_E
    return {
        "seen": History(indptr_U1, items_E),
        "seen_time_E": time_E,
        "seen_neutral_E": neutral_E if neutral_E.any() else None,
    }


def _indptr(
    shards: Shards, parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> NDArray[np.int64]:
    """Return where the rows of each user begin in a load in memory."""
    count_U = np.zeros(shards.n_users, np.int64)
    for rank_U, indptr_U1 in parts:
        count_U[rank_U] = np.diff(indptr_U1)
    return np.concatenate(([0], np.cumsum(count_U)))
