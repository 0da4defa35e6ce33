"""The ways to build interactions: from arrays, contexts, a sparse matrix, or indices.

Every way ends in ``from_indices``, which sorts the rows by (context, item) and keeps one row a
pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sdgar.data import contexts, numbers
from sdgar.data.account import RowAccount
from sdgar.data.ids import Ids, held, plain
from sdgar.data.read_options import USER, Duplicates
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.maths.order import ranked
from sdgar.maths.pairs import distinct_pairs, sorted_rows

_MAX_RATIO = 1e12
_FLOAT32 = np.finfo(np.float32)


@dataclass
class Merging:
    """What is found of the weights while rows of one pair are merged, part by part."""

    differing: int = 0
    """The number of pairs that occur with different weights, where that is an error."""
    user: Any = None
    """The first user with such a pair."""
    item: Any = None
    """The item of the first such pair."""
    least: float = float("inf")
    """The least weight of a pair."""
    least_positive: float = float("inf")
    """The least weight of a pair above 0."""
    most: float = 0.0
    """The largest weight of a pair."""
    total: float = 0.0
    """The sum of the weights of all pairs."""

    def merge(
        self,
        weight_E: NDArray[np.float64],
        key_E: NDArray[np.int64],
        last_E: NDArray[np.bool_],
        duplicates: Duplicates,
        users: Ids,
        items: Ids,
    ) -> NDArray[np.float64]:
        """Return one weight a pair, of rows sorted by pair; ``last_E`` marks the last row of each.

        What is found is added to this record.
        """
        starts = np.concatenate(([0], np.flatnonzero(last_E)[:-1] + 1))
        if duplicates == "sum":
            merged = np.add.reduceat(weight_E, starts)
        elif duplicates == "max":
            merged = np.maximum.reduceat(weight_E, starts)
        else:
            merged = weight_E[last_E]
        if duplicates == "error":
            low, high = np.minimum.reduceat(weight_E, starts), np.maximum.reduceat(weight_E, starts)
            differs = np.flatnonzero(low != high)
            if len(differs):
                user, item = divmod(int(key_E[last_E][differs[0]]), len(items))
                self._add_differing(len(differs), users.values[user], items.values[item])
        self.least = min(self.least, float(merged.min()))
        positive = merged[merged > 0]
        self.least_positive = min(self.least_positive, float(positive.min(initial=np.inf)))
        self.most = max(self.most, float(merged.max()))
        self.total += float(merged.sum())
        return merged

    def _add_differing(self, count: int, user: Any, item: Any) -> None:
        if not self.differing or user < self.user:
            self.user, self.item = user, item
        self.differing += count

    def add(self, other: Merging) -> None:
        """Take in what was found of other rows, of other users."""
        if other.differing:
            self._add_differing(other.differing, other.user, other.item)
        self.least = min(self.least, other.least)
        self.least_positive = min(self.least_positive, other.least_positive)
        self.most = max(self.most, other.most)
        self.total += other.total

    def require(self) -> None:
        """Raise if weights differ where they must not, or do not fit float32 together."""
        if self.differing:
            raise DataError(
                f"{self.differing:,} (user, item) pairs occur with different weights, the "
                f"first is user {plain(self.user)!r}, item {plain(self.item)!r}. "
                "Say what is meant with --duplicates sum, max or last (duplicates=… in Python).",
                code="differing_weights",
            )
        if self.most > self.least_positive * _MAX_RATIO:
            raise DataError(
                f"weights range from {self.least_positive:g} to {self.most:g}, more than a factor "
                "of 1e12: the smallest would be lost in rounding. Rescale or clip them.",
                code="weight_range",
            )
        if self.total > _FLOAT32.max or self.least_positive < _FLOAT32.tiny:
            raise DataError(
                f"weights from {self.least:g} to {self.most:g} that add up to {self.total:g} do "
                f"not fit float32, which ends at {_FLOAT32.max:g}. Rescale or clip them.",
                code="weight_range",
            )


class Built(NamedTuple):
    """The fields of ``Interactions`` that are built from rows."""

    users: Ids
    items: Ids
    indptr_U1: NDArray[np.int64]
    items_E: NDArray[np.int32]
    account: RowAccount
    weight_E: NDArray[np.float32] | None
    time_E: NDArray[np.int64] | None


def from_contexts(
    fields: Mapping[str, Sequence[Any] | NDArray[Any]],
    items: Sequence[Any] | NDArray[Any],
    *,
    weight: Sequence[float] | NDArray[Any] | None,
    time: Sequence[int] | NDArray[Any] | None,
    duplicates: Duplicates,
) -> Built:
    """Build from contexts of several fields, one array a field."""
    if not isinstance(fields, Mapping):
        raise UsageError(
            "fields must be a mapping of names to columns, such as {'user': …, 'city': …}; got "
            f"a {type(fields).__name__}.",
            code="bad_shape",
        )
    contexts.require_fields(tuple(fields))
    if tuple(fields) == USER:
        return from_arrays(fields["user"], items, weight=weight, time=time, duplicates=duplicates)
    columns = {name: _distinct(values, name) for name, values in fields.items()}
    _require_same_length(
        {name: len(index) for name, (_, index) in columns.items()} | {"items": len(items)}
    )
    ids, contexts_E = contexts.combined(
        {name: distinct.values[index] for name, (distinct, index) in columns.items()}
    )
    return from_arrays(
        ids.values[contexts_E], items, weight=weight, time=time, duplicates=duplicates
    )


def from_arrays(
    users: Sequence[Any] | NDArray[Any],
    items: Sequence[Any] | NDArray[Any],
    *,
    weight: Sequence[float] | NDArray[Any] | None,
    time: Sequence[int] | NDArray[Any] | None,
    duplicates: Duplicates,
) -> Built:
    """Build from one array of raw values a column."""
    user_ids, users_E = _distinct(users, "user")
    item_ids, items_E = _distinct(items, "item")
    return from_indices(
        user_ids, item_ids, users_E, items_E, weight_E=weight, time_E=time, duplicates=duplicates
    )


def from_csr(matrix: Any, *, weighted: bool) -> Built:
    """Build from a scipy sparse matrix of users × items; ids are row and column numbers."""
    if not hasattr(matrix, "tocoo") or len(matrix.shape) != 2:
        raise UsageError(
            f"from_csr takes a scipy sparse matrix of users × items, got a "
            f"{type(matrix).__name__}. Wrap rows of numbers as scipy.sparse.csr_array(rows).",
            code="bad_matrix",
        )
    coo = matrix.tocoo()
    data = np.asarray(coo.data)
    if data.dtype.kind not in "biuf" or not np.isfinite(data).all():
        raise DataError(
            f"the entries of the matrix must be finite real numbers, and these are {data.dtype}"
            " or not finite. Clean or convert them first.",
            code="bad_weight",
        )
    stored = data != 0
    built = from_arrays(
        np.asarray(coo.row)[stored].astype(np.int64),
        np.asarray(coo.col)[stored].astype(np.int64),
        weight=data[stored] if weighted else None,
        time=None,
        duplicates="sum",
    )
    zeros = int((~stored).sum())
    account = replace(
        built.account,
        read=built.account.read + zeros,
        filtered={"zero_weight": zeros} if zeros else {},
    )
    return built._replace(account=account)


def from_indices(
    users: Ids,
    items: Ids,
    users_E: NDArray[np.integer[Any]],
    items_E: NDArray[np.integer[Any]],
    *,
    weight_E: Sequence[float] | NDArray[Any] | None = None,
    time_E: Sequence[int] | NDArray[Any] | None = None,
    duplicates: Duplicates = "error",
    account: RowAccount | None = None,
    merging: Merging | None = None,
) -> Built:
    """Sort rows into CSR order and keep one row a pair: the last one in time.

    ``merging`` collects what is found of the weights, where these are some rows of more; then
    nothing is refused for it here.
    """
    if duplicates not in get_args(Duplicates):
        raise unknown_name("duplicates rule", duplicates, get_args(Duplicates))
    weight_E = None if weight_E is None else numbers.weights(weight_E)
    time_E = None if time_E is None else numbers.times(time_E)
    columns = {"users": users_E, "items": items_E, "weights": weight_E, "times": time_E}
    _require_same_length({name: len(c) for name, c in columns.items() if c is not None})
    if len(users_E) == 0:
        raise DataError("there is no row to learn from.", code="no_rows")
    _require_indices("user", users_E, len(users))
    _require_indices("item", items_E, len(items))
    ends = len(users), len(items)
    rows = sorted_rows(users_E, items_E, ends, time_E, weight_E)
    weight = None
    if rows.weight_E is not None:
        found = Merging() if merging is None else merging
        with np.errstate(over="ignore"):  # sums beyond float64 are refused as infinite
            merged = found.merge(
                rows.weight_E, rows.key_E, rows.is_last_E, duplicates, users, items
            )
            if merging is None:
                found.require()
            weight = merged.astype(np.float32)
    pairs = distinct_pairs(rows, ends)
    n_duplicates = len(users_E) - len(pairs.column_F)
    account = account or RowAccount(read=len(users_E), kept=len(users_E))
    return Built(
        users=users,
        items=items,
        indptr_U1=pairs.start_R1,
        items_E=pairs.column_F,
        account=replace(
            account,
            kept=account.kept - n_duplicates,
            duplicates=account.duplicates + n_duplicates,
        ),
        weight_E=weight,
        time_E=pairs.time_F,
    )


def _require_same_length(lengths: Mapping[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
        raise DataError(
            f"columns are of different lengths: {said}. Give one value a row.", code="bad_shape"
        )


def _require_indices(what: str, index_E: NDArray[np.integer[Any]], n: int) -> None:
    if index_E.dtype.kind not in "iu" or index_E.min() < 0 or index_E.max() >= n:
        raise UsageError(
            f"{what} indices must be integers from 0 to {n - 1}, got {index_E.dtype} from "
            f"{index_E.min()} to {index_E.max()}.",
            code="bad_index",
        )


def _distinct(raw: Sequence[Any] | NDArray[Any], what: str) -> tuple[Ids, NDArray[np.integer[Any]]]:
    distinct, index = ranked(held(raw, f"{what} ids"))
    return Ids(distinct), index
