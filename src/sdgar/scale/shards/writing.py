"""Write interactions that are in RAM as shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import at_least
from sdgar.data.building import RowAccount
from sdgar.data.history import History
from sdgar.data.ids import Ids, id_arrays
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER
from sdgar.errors import UsageError
from sdgar.scale.shards.format import (
    TIME,
    WEIGHT,
    Manifest,
    is_shards,
    sums_of,
    write_arrays,
    write_manifest,
    write_shard,
)
from sdgar.storage import folders
from sdgar.storage.files import disk_error

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WORD = 8
_LONGEST = 20
"""The most characters of an integer of 64 bits."""


def shard_of(values: NDArray[Any], n_shards: int) -> NDArray[np.uint16]:
    """Return the shard of each id, which is the same on every machine and in every version.

        h = number of bytes,   then for each word w of eight bytes:   h = mix(h xor w)
        shard = ⌊(h >> 32) · number of shards / 2^32⌋

    The bytes of an id are its text in UTF-8, or the decimal digits of an integer, padded with zero
    bytes to whole words, little-endian. ``mix`` is the step of SplitMix64 (Steele et al. 2014). An
    integer and its spelling thus lie in the same shard. Ids are integers, or texts as objects.
    """
    high_U = hashes(*_spelled(values)) >> np.uint64(32)
    return (high_U * np.uint64(n_shards) >> np.uint64(32)).astype(np.uint16)


def _spelled(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the spelling of all ids as bytes, and where each begins."""
    if values.dtype.kind not in "iu":
        arrays = id_arrays(values, "ids")
        return arrays["ids.offsets"], arrays["ids.bytes"]
    digits = values.astype(f"S{_LONGEST}").view(np.uint8).reshape(-1, _LONGEST)
    used = digits != 0  # the digit 0 is the byte 48
    offsets = np.concatenate(([0], np.cumsum(used.sum(axis=1))))
    return offsets, digits[used]


def hashes(offsets_U1: NDArray[np.int64], spelling: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the 64-bit hash of each spelling."""
    padded = np.concatenate((spelling, np.zeros(_WORD, np.uint8)))
    # A word begins at every byte: the view below overlaps itself.
    word_B = np.ndarray(len(spelling) + 1, "<u8", padded, strides=(1,))
    start_U, length_U = offsets_U1[:-1], np.diff(offsets_U1)
    hash_U = length_U.astype(np.uint64)
    for at in range(0, int(length_U.max(initial=0)), _WORD):
        longer = np.flatnonzero(length_U > at)
        left = np.minimum(length_U[longer] - at, _WORD).astype(np.uint64)
        unused = np.uint64(_WORD) * (np.uint64(_WORD) - left)  # bits of the bytes after the end
        word = word_B[start_U[longer] + at] << unused >> unused
        hash_U[longer] = _mix(hash_U[longer] ^ word)
    return hash_U


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + _GAMMA
    x = (x ^ (x >> np.uint64(30))) * _MIX_A
    x = (x ^ (x >> np.uint64(27))) * _MIX_B
    return x ^ (x >> np.uint64(31))


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

    def own(folder: Path) -> list[str]:
        return [file.name for file in folder.iterdir()] if is_shards(folder) else []

    return folders.require_free(path, overwrite=overwrite, own=own, what="a folder of shards")


def write(data: Interactions, path: str | Path, n_shards: int, *, overwrite: bool) -> Path:
    """Write interactions as a folder of shards, whole or not at all."""
    require_shards(n_shards)
    require_users(data.context)
    if data.user_features is not None or data.item_features is not None:
        raise UsageError(
            "shards do not keep features. Write the rows without them, and join features later.",
            code="unused_option",
        )
    place = require_free(path, overwrite=overwrite)
    shard_U = shard_of(data.users.values, n_shards)
    try:
        with folders.whole(place, replace=overwrite) as temporary:
            write_arrays(temporary, id_arrays(data.items.values, "items"))
            files = sums_of(temporary)
            parts = []
            for number in range(n_shards):
                users_S = np.flatnonzero(shard_U == number)
                arrays = arrays_of(_of_users(data, users_S)) | {"rank": users_S}
                parts.append(write_shard(temporary, number, n_shards, arrays))
            manifest = Manifest(
                ids={"users": data.users.kind, "items": data.items.kind},
                items=data.n_items,
                weights=data.weight_E is not None,
                times=data.time_E is not None,
                account=data.account,
                shards=tuple(parts),
                files=files,
            )
            write_manifest(temporary, manifest)
    except OSError as error:
        raise disk_error(place, error) from error
    return place


def require_users(context: Sequence[str]) -> None:
    """Raise if rows belong to contexts of several fields, which shards do not keep."""
    if context != USER:
        raise UsageError(
            f"shards hold the rows of users, and a context is {', '.join(context)} here. Leave "
            "--context out.",
            code="bad_context",
        )


def _of_users(data: Interactions, users_S: NDArray[np.int64]) -> Interactions:
    """Return the rows of some users, in this order."""

    def some(row_E: NDArray[np.int64], **arrays: NDArray[Any] | None) -> dict[str, Any]:
        return {name: None if one is None else one[row_E] for name, one in arrays.items()}

    row_E, indptr_S1 = rows_of(data.indptr_U1, users_S)
    found = some(row_E, items_E=data.items_E, weight_E=data.weight_E, time_E=data.time_E)
    if data.seen is not None:
        row_E, seen_S1 = rows_of(data.seen.indptr_U1, users_S)
        found["seen"] = History(seen_S1, data.seen.items_E[row_E])
        found |= some(row_E, seen_time_E=data.seen_time_E, seen_neutral_E=data.seen_neutral_E)
    return Interactions(
        users=Ids(data.users.at(users_S)),
        items=data.items,
        indptr_U1=indptr_S1,
        account=RowAccount(int(indptr_S1[-1]), int(indptr_S1[-1])),
        **found,
    )


def arrays_of(data: Interactions) -> dict[str, NDArray[Any]]:
    """Return the arrays of the shard with these rows, but for the numbers of users in RAM."""
    arrays: dict[str, NDArray[Any] | None] = {
        "indptr": data.indptr_U1,
        "items": data.items_E,
        WEIGHT: data.weight_E,
        TIME: data.time_E,
        **id_arrays(data.users.values, "users"),
    }
    seen, neutral_E = data.seen, data.seen_neutral_E
    if seen is not None and len(seen.items_E):
        arrays |= {"seen.indptr": seen.indptr_U1, "seen.items": seen.items_E}
        arrays["seen.time"] = data.seen_time_E
        arrays["seen.neutral"] = None if neutral_E is None or not neutral_E.any() else neutral_E
    return {name: array for name, array in arrays.items() if array is not None}


def rows_of(
    indptr_U1: NDArray[np.int64], users_S: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of some users one after the other, and where each user begins."""
    count_S = np.diff(indptr_U1)[users_S]
    indptr_S1 = np.concatenate(([0], np.cumsum(count_S)))
    shift_S = indptr_U1[users_S] - indptr_S1[:-1]
    return np.arange(indptr_S1[-1]) + np.repeat(shift_S, count_S), indptr_S1
