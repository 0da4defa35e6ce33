"""Finish shards whose rows are merged: transform the weights, and seal every file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.account import RowAccount
from sdgar.data.weighting import Weighing
from sdgar.scale.shards.files import file_of, mapped, sums_of, write_plain
from sdgar.scale.shards.manifest import Part, folder_of, read_part, write_described, write_part
from sdgar.scale.shards.merging import RAW, read_stage
from sdgar.scale.shards.workplace import Workplace, link
from sdgar.storage import folders

_WEIGHT = "weight"


@dataclass(frozen=True)
class _Staged:
    """The merged rows of a shard, with raw weights."""

    folder: Path

    @property
    def indptr_U1(self) -> NDArray[np.int64]:
        return mapped(self.folder, "indptr", "int64", None)

    @property
    def items_E(self) -> NDArray[np.int32]:
        return mapped(self.folder, "items", "int32", None)

    @property
    def weight_E(self) -> NDArray[np.float32]:
        return mapped(self.folder, RAW, "float32", None)


def weighing(stages: list[Path], n_items: int, how: str) -> tuple[Weighing, str]:
    """Decide how weights are transformed, and return what is said of it."""
    staged = [_Staged(folder) for folder in stages]
    decided = Weighing(staged, n_items, how)
    if decided.is_raw:
        return decided, decided.sentence()
    low, high = np.inf, -np.inf
    for one in staged:
        tamed_E = decided.tamed(one)
        low, high = tamed_E.min(initial=low), tamed_E.max(initial=high)
    return decided, decided.sentence(f"{low:.3g} to {high:.3g}")


def seal_shard(work: Workplace, number: int, of: int, weights: Weighing | None) -> Part:
    """Make one shard of its merged rows, whole or not at all, and return what is known of it."""
    place, stage = folder_of(work.whole, number), work.stage(number)
    if place.exists():
        return read_part(place)
    known = read_stage(stage)
    with folders.whole(place, replace=False) as temporary:
        for path in stage.glob("*.npy"):
            if path != file_of(stage, RAW):
                link(path, temporary / path.name)
        if weights is not None and weights.is_raw:
            link(file_of(stage, RAW), file_of(temporary, _WEIGHT))
        elif weights is not None:
            write_plain(temporary, {_WEIGHT: weights.tamed(_Staged(stage))})
        sizes = (known.users, known.rows, known.seen)
        return write_part(temporary, number, of, sizes, sums_of(temporary))


def seal_all(
    work: Workplace,
    parts: list[Part],
    *,
    kinds: Mapping[str, str],
    n_items: int,
    account: RowAccount,
    times: bool,
    weights: bool,
    about: Mapping[str, Any],
) -> None:
    """Write the manifest of all shards, and make them appear."""
    for path in work.items.glob("*.npy"):
        if not (work.whole / path.name).exists():
            link(path, work.whole / path.name)
    (work.whole / folders.MANIFEST).unlink(missing_ok=True)
    write_described(
        work.whole,
        kinds=kinds,
        items=n_items,
        parts=parts,
        account=account,
        weights=weights,
        times=times,
        files=sums_of(work.whole),
        about=about,
    )
    work.finish()
