"""Hold opaque ids, which are never parsed, rounded or normalised: they come out as they went in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import DataError, UsageError
from sdgar.storage.sealed import DamagedError, Tensors

MAX_BYTES = 256
"""The most bytes of an id in a file, in UTF-8."""


def plain(value: Any) -> Any:
    """Return a NumPy number or text as Python's own, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, or the missing values of pandas and NumPy."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value) if isinstance(value, float | np.floating) else False


def _can_be_id(value: Any) -> bool:
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)


def held(raw: Sequence[Any] | NDArray[Any], what: str = "ids") -> NDArray[Any]:
    """Return ids as int64, uint64 or an object array of text; raise for anything else."""
    array = one_dimensional(raw, what)
    if array.dtype.kind in "OUT":
        return _from_objects([plain(value) for value in array.tolist()], what)
    if array.dtype.kind in "iu":
        wide = array.dtype.kind == "u" and array.itemsize == 8
        return array.astype(np.uint64 if wide else np.int64)
    raise not_ids(what, str(array.dtype), is_float=array.dtype.kind == "f")


def one_dimensional(raw: Any, what: str) -> NDArray[Any]:
    """Return a column as a NumPy array; raise if it is no column or has masked values."""
    if isinstance(raw, np.ma.MaskedArray):
        if np.ma.getmaskarray(raw).any():
            at = int(np.flatnonzero(np.ma.getmaskarray(raw))[0])
            raise DataError(
                f"the {what} are a masked array, and row {at + 1} is masked. Leave masked rows "
                "out first.",
                code="missing_value",
            )
        raw = raw.data
    require_column(raw, what)
    # Text goes through object arrays: NumPy's own text type drops trailing NUL characters.
    array = raw if isinstance(raw, np.ndarray) else np.array([*raw, None], dtype=object)[:-1]
    nested = array.dtype.kind == "O" and any(isinstance(v, list | np.ndarray) for v in array)
    if array.ndim != 1 or nested:
        found = "a list of lists" if nested else f"shape {array.shape}"
        raise UsageError(f"the {what} must be one-dimensional, got {found}.", code="bad_shape")
    return array


def is_column(raw: Any) -> bool:
    """Return whether a value is a column of many values; a text counts as one value."""
    one = isinstance(raw, str | bytes | bytearray) or getattr(raw, "ndim", 1) == 0
    return isinstance(raw, Iterable) and not one


def only_column(given: Any, what: str) -> Any:
    """Return the column of a frame that has one, and anything else as it is.

    To go over the values of a frame is to go over its columns or their names, and not its rows.
    """
    if not (hasattr(given, "columns") and hasattr(given, "shape")):
        return given
    names = list(given.columns)
    if len(names) == 1:
        return given[names[0]]
    raise UsageError(
        f"{what} must be one column of ids, and the frame has {len(names)}: "
        f"{', '.join(map(str, names))[:80]}. Pass one of them, such as "
        f"frame[{str(names[:1])[1:-1]}].",
        code="bad_ids",
    )


def require_column(raw: Any, what: str) -> None:
    """Raise if one value is given where a column is needed."""
    if not is_column(raw):
        raise UsageError(
            f"the {what} must be a list or an array with one value a row; got the "
            f"{type(raw).__name__} {str(raw)[:60]!r}.",
            code="bad_shape",
        )


def common_kind(*parts: NDArray[Any]) -> list[NDArray[Any]]:
    """Return columns of integer ids in one type that holds all of them, and texts as they are.

    NumPy itself would meet int64 and uint64 at float64, and lose digits above 2^53.
    """
    kinds = {part.dtype.kind for part in parts}
    if "O" in kinds and len(kinds) > 1:
        raise DataError(
            "the two parts hold ids of different kinds: text and integers. Write both with the "
            "same column types.",
            code="schema_mismatch",
        )
    if kinds != {"i", "u"}:
        return list(parts)
    if all((part <= np.iinfo(np.int64).max).all() for part in parts):
        return [part.astype(np.int64) for part in parts]
    if any(part.dtype.kind == "i" and (part < 0).any() for part in parts):
        raise int_overflow("one part has negative ids and another ids of 2^63 or more, which")
    return [part.astype(np.uint64) for part in parts]


def int_overflow(what: str) -> DataError:
    """Build the error for integers that neither int64 nor uint64 can hold."""
    return DataError(
        f"{what} together fit neither int64 nor uint64. Write the ids as text.",
        code="int_overflow",
    )


def _from_objects(values: list[Any], what: str) -> NDArray[Any]:
    """Return an array of Python integers or of Python texts; raise if both are mixed."""
    if values and all(isinstance(value, str) for value in values):
        try:
            "".join(values).encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{what} hold a text that is not Unicode: {error}. Leave such rows out.",
                code="bad_encoding",
            ) from error
        return np.array([*map(str, values), None], dtype=object)[:-1]
    for row, value in enumerate(values, 1):
        if is_missing(value):
            raise DataError(
                f"{what} are missing, first in row {row} ({value!r}). Leave such rows out.",
                code="missing_id",
            )
    kinds = {type(value) for value in values}
    if len(kinds) > 1:
        raise DataError(
            f"{what} mix types: {', '.join(sorted(k.__name__ for k in kinds))}. "
            "Give all ids as text or all as integers.",
            code="mixed_ids",
        )
    if any(not isinstance(value, int) or isinstance(value, bool) for value in values):
        (kind,) = kinds
        raise not_ids(what, kind.__name__, is_float=kind is float)
    try:
        return np.array(values, np.uint64 if values and max(values) >= 2**63 else np.int64)
    except OverflowError as error:
        raise int_overflow(f"{what} from {min(values)} to {max(values)}") from error


def not_ids(what: str, kind: str, *, is_float: bool) -> DataError:
    """Build the error for values of a type that no id has."""
    return DataError(
        f"{what} are of type {kind}, which cannot be ids. Cast them to text or to integers "
        "first; floats lose digits above 2^53.",
        code="float_ids" if is_float else "unsupported_type",
    )


@dataclass(frozen=True)
class Ids:
    """Distinct ids in ascending order; the position of an id is its index."""

    values: NDArray[Any]
    """The ids as int64, uint64, or an object array of str."""

    def __post_init__(self) -> None:
        """Raise if integers do not ascend, as no id would be found among them."""
        if self.values.dtype.kind not in "iu":
            return
        wrong = np.flatnonzero(self.values[1:] <= self.values[:-1])
        if len(wrong):
            before, after = self.values[wrong[0] : wrong[0] + 2].tolist()
            found = f"{after} comes after {before}" if after < before else f"{after} occurs twice"
            raise DataError(
                f"ids must be distinct and ascending, and {found}.", code="unsorted_ids"
            )

    @classmethod
    def of(cls, values: NDArray[Any]) -> Ids:
        """Check the kind of ids that are distinct and ascend already, and wrap them."""
        return cls(held(values))

    @property
    def kind(self) -> Literal["int64", "uint64", "text"]:
        """The type of the ids."""
        kinds: dict[str, Literal["int64", "uint64", "text"]] = {"i": "int64", "u": "uint64"}
        return kinds.get(self.values.dtype.kind, "text")

    def __len__(self) -> int:
        return len(self.values)

    def at(self, indices: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the ids of some indices."""
        chosen: NDArray[Any] = self.values[indices]
        return chosen

    def find(self, raw: Any) -> int:
        """Return the index of one raw id as ``index_of`` does, -1 for an unknown one."""
        return self._index.get(str(raw), -1) if _can_be_id(raw) else -1

    def index_of(self, raw: Iterable[Any]) -> NDArray[np.int64]:
        """Return the index of each raw id, and -1 for an unknown one.

        An integer and its plain decimal spelling name the same id, so that ``17`` typed on a
        command line finds the integer 17, while ``017`` and ``17.0`` do not. Whatever is neither
        an integer nor a text is unknown: None is not the text "None".
        """
        array = raw if isinstance(raw, np.ndarray) else self._column(list(raw))
        if self.kind != "text" and array.dtype.kind in "iu":
            # Both sides must be of one type: NumPy compares int64 and uint64 as float64.
            own = np.iinfo(self.values.dtype)
            fits = (array >= own.min) & (array <= own.max)
            wanted = np.where(fits, array, 0).astype(self.values.dtype)
            at = np.searchsorted(self.values, wanted).clip(max=max(len(self) - 1, 0))
            found = fits & (self.values[at] == wanted) if len(self) else np.zeros_like(fits)
            return np.where(found, at, -1).astype(np.int64)
        found_at = (self._index.get(str(v), -1) if _can_be_id(v) else -1 for v in array)
        return np.fromiter(found_at, np.int64, len(array))

    def _column(self, raw: list[Any]) -> NDArray[Any]:
        """Return integers as NumPy has them, which need no table of all ids, or objects."""
        if self.kind != "text" and raw and all(type(value) is int for value in raw):
            numbers = np.array(raw)
            if numbers.dtype.kind in "iu":
                return numbers
        return np.array([*raw, None], dtype=object)[:-1]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {str(v): i for i, v in enumerate(self.values.tolist())}


def id_arrays(values: NDArray[Any], side: str) -> Tensors:
    """Return ids in any order as arrays of a file: texts are bytes with offsets."""
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
        right = offsets.dtype == np.int64 and offsets.shape == (n + 1,) and blob.dtype == np.uint8
        if not right or (offsets[0], offsets[-1]) != (0, len(blob)) or (np.diff(offsets) < 0).any():
            raise DamagedError(path, f"the offsets of the {side} ids do not fit their bytes")
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
