"""Split shards into training rows and held-out rows, as a split in RAM does, shard by shard.

Random numbers have addresses: that of a row is its number in a load in RAM, which is the number
of rows of all users with a lower rank, and its place among the rows of its user. RAM holds one
shard, a bit for each row, and some numbers for each user and item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.building import RowAccount
from sdgar.data.history import History
from sdgar.data.ids import Ids, id_arrays
from sdgar.data.interactions import Interactions
from sdgar.data.splits import share_of
from sdgar.data.splits.single import (
    by_time_in_words,
    held_by_time,
    held_per_user,
    per_user_in_words,
    place_of_cut,
    require_both,
)
from sdgar.errors import UsageError
from sdgar.scale.shards.format import sums_of, write_arrays, write_manifest, write_shard
from sdgar.scale.shards.shards import Shard, Shards, start_of_users
from sdgar.scale.shards.writing import arrays_of, require_free
from sdgar.storage import folders
from sdgar.storage.files import disk_error

_FEW = 1 << 22
"""The numbers that are sorted in RAM."""


def kth_smallest(parts: Sequence[NDArray[np.int64]], k: int, few: int = _FEW) -> int:
    """Return the number at place k, counted from 0, of all parts in ascending order.

    The range that has place k is halved until what is in it fits in RAM.
    """
    filled = [part for part in parts if len(part)]
    low, high = min(int(p.min()) for p in filled), max(int(p.max()) for p in filled)
    count = sum(map(len, filled))
    while count > few and low < high:
        middle = (low + high) // 2
        below = sum(int(((part >= low) & (part <= middle)).sum()) for part in filled)
        if k < below:
            high, count = middle, below
        else:
            low, k, count = middle + 1, k - below, count - below
    if low == high:
        return low
    inside = np.concatenate([part[(part >= low) & (part <= high)] for part in filled])
    return int(np.partition(inside, k)[k])


_RULES = ("paper", "time")


def split_shards(
    shards: Shards,
    out: str | Path,
    rule: str | None = None,
    *,
    seed: int = 0,
    share: float | None = None,
    overwrite: bool = False,
) -> tuple[Shards, Shards, str]:
    """Write ``train.shards`` and ``test.shards`` into a folder, as ``sdgar.split`` splits rows.

    The rules are "paper", a share of each user's rows at random, and "time", the last rows of all.
    Return the rows to train on, the rows to be found, and the rule in words.
    """
    rule = rule or ("time" if shards.has_times else "paper")
    name = rule.partition(":")[0]
    if name not in _RULES:
        raise UsageError(
            f"shards are split by {' or '.join(_RULES)}, got {rule!r}. Other rules need all rows "
            "in RAM: read the shards with Shards.interactions().",
            code="unknown_split",
        )
    of = share_of(rule, share)
    places = [
        require_free(Path(out) / f"{part}.shards", overwrite=overwrite)
        for part in ("train", "test")
    ]
    held, how, cut = _by_time(shards, of) if name == "time" else _per_user(shards, of, seed)
    bits = [np.packbits(held(shard)) for shard in shards]
    n_held = sum(int(np.bitwise_count(one).sum()) for one in bits)
    require_both(n_held, shards.n_rows, how, _ends(shards))
    try:
        with ExitStack() as stack:
            train, test = (
                stack.enter_context(folders.whole(place, replace=overwrite)) for place in places
            )
            _write(shards, train, lambda at: ~_bits(bits[at], shards, at), "held out", how, cut)
            _write(shards, test, lambda at: _bits(bits[at], shards, at), "training", how, None)
    except OSError as error:
        raise disk_error(Path(out), error) from error
    return Shards.open(places[0]), Shards.open(places[1]), how


_Held = Callable[[Shard], NDArray[np.bool_]]


def _per_user(shards: Shards, share: float, seed: int) -> tuple[_Held, str, None]:
    first_U = start_of_users(shards)

    def held(shard: Shard) -> NDArray[np.bool_]:
        rows = History(shard.indptr_U1, shard.items_E)
        shift_U = first_U[shard.rank_U] - shard.indptr_U1[:-1]
        number_E = np.arange(len(shard)) + np.repeat(shift_U, np.diff(shard.indptr_U1))
        return held_per_user(rows, number_E, share=share, seed=seed)

    return held, per_user_in_words(share, seed), None


def _by_time(shards: Shards, share: float) -> tuple[_Held, str, int]:
    place = place_of_cut(shards.n_rows, share)
    cut = kth_smallest([_times(shard) for shard in shards], place)

    def held(shard: Shard) -> NDArray[np.bool_]:
        return held_by_time(History(shard.indptr_U1, shard.items_E), _times(shard), cut)

    return held, by_time_in_words(share), cut


def _times(shard: Shard) -> NDArray[np.int64]:
    if shard.time_E is None:
        raise UsageError(
            "a split by time needs times, and these shards have none. Write them with "
            "--time-column, or split them by paper.",
            code="no_time",
        )
    return shard.time_E


def _ends(shards: Shards) -> NDArray[np.int64] | None:
    """Return the first and the last time of all rows, if there are times."""
    times = [shard.time_E for shard in shards if shard.time_E is not None and len(shard)]
    if not times:
        return None
    return np.array([min(t.min() for t in times), max(t.max() for t in times)])


def _bits(packed: NDArray[np.uint8], shards: Shards, number: int) -> NDArray[np.bool_]:
    return np.unpackbits(packed, count=int(shards.rows_S[number])).view(np.bool_)


def _write(
    shards: Shards,
    folder: Path,
    kept: Callable[[int], NDArray[np.bool_]],
    reason: str,
    how: str,
    seen_before: int | None,
) -> None:
    """Write some rows of each shard; users and items that are left without a row lose their id."""
    item_I = np.zeros(shards.n_items, np.bool_)
    user_R = np.zeros(shards.n_users, np.bool_)
    for shard in shards:
        keep_E = kept(shard.number)
        item_I[shard.items_E[keep_E]] = True
        user_R[shard.rank_U] = _count(shard.indptr_U1, keep_E) > 0
    number_I, number_R = np.cumsum(item_I) - 1, np.cumsum(user_R) - 1
    items = Ids(shards.items.values[item_I])
    write_arrays(folder, id_arrays(items.values, "items"))
    files, parts = sums_of(folder), []
    for shard in shards:
        keep_E = kept(shard.number)
        is_user_U = user_R[shard.rank_U]
        weight_E, time_E = shard.weight_E, shard.time_E
        count = int(keep_E.sum())
        data = Interactions(
            users=Ids(shard.users.values[is_user_U]),
            items=items,
            indptr_U1=_indptr(_count(shard.indptr_U1, keep_E)[is_user_U]),
            items_E=number_I[shard.items_E[keep_E]].astype(np.int32),
            account=RowAccount(count, count),
            weight_E=None if weight_E is None else weight_E[keep_E],
            time_E=None if time_E is None else time_E[keep_E],
            **_seen(shard, is_user_U, item_I, number_I, seen_before),
        )
        arrays = arrays_of(data) | {"rank": number_R[shard.rank_U[is_user_U]]}
        parts.append(write_shard(folder, shard.number, shards.n_shards, arrays))
    left_out = shards.n_rows - sum(part.rows for part in parts)
    before = shards.account
    account = replace(
        before,
        kept=before.kept - left_out,
        filtered={**before.filtered, reason: before.filtered.get(reason, 0) + left_out},
    )
    about = {**shards.described.about, "split": how}
    write_manifest(
        folder,
        replace(
            shards.described, items=len(items), account=account, shards=tuple(parts), files=files,
            about=about,
        ),
    )  # fmt: skip


def _seen(
    shard: Shard,
    is_user_U: NDArray[np.bool_],
    item_I: NDArray[np.bool_],
    number_I: NDArray[np.int64],
    before: int | None,
) -> dict[str, Any]:
    """Return the pairs that users know and dislike, of users and items that have rows."""
    if shard.seen is None:
        return {}
    keep_E = item_I[shard.seen.items_E] & is_user_U[shard.seen.users_E]
    if before is not None and shard.seen_time_E is not None:
        keep_E &= shard.seen_time_E < before
    counts = _count(shard.seen.indptr_U1, keep_E)[is_user_U]
    time_E, neutral_E = shard.seen_time_E, shard.seen_neutral_E
    return {
        "seen": History(_indptr(counts), number_I[shard.seen.items_E[keep_E]].astype(np.int32)),
        "seen_time_E": None if time_E is None else time_E[keep_E],
        "seen_neutral_E": None if neutral_E is None else neutral_E[keep_E],
    }


def _count(indptr_U1: NDArray[np.int64], keep_E: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many rows of each user are kept."""
    kept_E1 = np.concatenate(([0], np.cumsum(keep_E)))
    return np.diff(kept_E1[indptr_U1])


def _indptr(count_U: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(count_U))).astype(np.int64)
