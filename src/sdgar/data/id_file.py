"""Ids as arrays of a file: integers as they are, texts as bytes with offsets."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.errors import DataError
from sdgar.storage.sealed import DamagedError, Tensors


def id_tensors(users: Ids, items: Ids) -> Tensors:
    """Return the ids of both sides of a saved model as arrays."""
    return {**id_arrays(users, "users"), **id_arrays(items, "items")}


def id_arrays(ids: Ids, side: str) -> Tensors:
    """Return the ids of one side as arrays: integers as they are, texts as bytes with offsets."""
    return value_arrays(ids.values, side)


def value_arrays(values: NDArray[Any], side: str) -> Tensors:
    """Return ids in any order as arrays."""
    if values.dtype.kind in "iu":
        return {side: values}
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {
        f"{side}.offsets": ends,
        f"{side}.bytes": np.frombuffer(b"".join(encoded), np.uint8),
    }


def read_ids(path: Path, tensors: Tensors, side: str, kind: str, n: int) -> Ids:
    """Read the ids of one side, if they are n distinct ones of this kind."""
    if kind == "text":
        names = (f"{side}.offsets", f"{side}.bytes")
        if any(name not in tensors for name in names):
            raise DamagedError(path, f"the text ids of {side} are missing")
        offsets, blob = (tensors[name] for name in names)
        _check_offsets(path, side, offsets, blob, n)
        raw = blob.tobytes()
        try:
            words = [raw[a:b].decode() for a, b in itertools.pairwise(offsets)]
        except UnicodeDecodeError as error:
            raise DamagedError(path, f"an id of {side} is not UTF-8") from error
        ids = Ids(np.array([*words, None], dtype=object)[:-1])
    elif kind in ("int64", "uint64"):
        if side not in tensors or tensors[side].dtype != kind or tensors[side].shape != (n,):
            raise DamagedError(path, f"the ids of {side} are not {n} numbers of type {kind}")
        try:
            ids = Ids(tensors[side])
        except DataError as error:
            raise DamagedError(path, f"{side}: {error}".rstrip(".")) from error
    else:
        raise DamagedError(path, f"ids of kind {kind!r} are unknown")
    ascend = bool((ids.values[1:] > ids.values[:-1]).all())  # the rule, and then none is twice
    if not ascend and len(set(ids.values.tolist())) != n:
        raise DamagedError(path, f"an id of {side} occurs twice")
    return ids


def _check_offsets(
    path: Path, side: str, offsets: NDArray[Any], blob: NDArray[Any], n: int
) -> None:
    right = offsets.dtype == np.int64 and offsets.shape == (n + 1,) and blob.dtype == np.uint8
    if not right or offsets[0] != 0 or offsets[-1] != len(blob) or (np.diff(offsets) < 0).any():
        raise DamagedError(path, f"the offsets of the {side} ids do not fit their bytes")
