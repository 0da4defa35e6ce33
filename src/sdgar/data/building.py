"""Build interactions: number the ids, sort the rows into CSR order, and account for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from sdgar.data import contexts, numbers
from sdgar.data.ids import Ids, held, plain
from sdgar.data.read_options import USER, Duplicates
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.maths.order import distinct_pairs, ranked, sorted_rows

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


@dataclass(frozen=True, slots=True)
class RowAccount:
    """read = kept + duplicates + filtered + rejected: what became of every row that was read."""

    read: int
    """The number of rows that were read."""
    kept: int
    """The number of rows that are in the data."""
    duplicates: int = 0
    """The number of rows that repeated a pair of an earlier row."""
    filtered: Mapping[str, int] = field(default_factory=dict)
    """The numbers of good rows that were left out on request, by reason."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """The numbers of bad rows that were left out because the caller allowed it, by reason."""

    def __post_init__(self) -> None:
        """Assert that no row is unaccounted for."""
        out = self.duplicates + sum(self.filtered.values()) + sum(self.rejected.values())
        if self.read != self.kept + out:
            msg = f"row accounting broken: read {self.read} != kept {self.kept} + left out {out}"
            raise AssertionError(msg)

    def sentence(self) -> str:
        """Return the account as one line for people."""
        parts = [f"{self.kept:,} kept"]
        parts += [f"{self.duplicates:,} duplicates"] if self.duplicates else []
        parts += [f"{n:,} filtered ({why})" for why, n in self.filtered.items() if n]
        parts += [f"{n:,} rejected ({why})" for why, n in self.rejected.items() if n]
        return f"{self.read:,} rows read = " + " + ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the account as plain values, for JSON."""
        return {
            "read": self.read,
            "kept": self.kept,
            "duplicates": self.duplicates,
            "filtered": dict(self.filtered),
            "rejected": dict(self.rejected),
        }


def number_contexts(
    fields: Mapping[str, Sequence[Any] | NDArray[Any]],
) -> tuple[Ids, NDArray[np.integer[Any]]]:
    """Return the ids of contexts of several fields, and the index of each row."""
    if not isinstance(fields, Mapping):
        raise UsageError(
            "fields must be a mapping of names to columns, such as {'user': …, 'city': …}; got "
            f"a {type(fields).__name__}.",
            code="bad_shape",
        )
    contexts.require_fields(tuple(fields))
    if tuple(fields) == USER:
        return number_ids(fields["user"], "user ids")
    columns = {name: number_ids(values, f"{name} ids") for name, values in fields.items()}
    _require_same_length({name: len(index) for name, (_, index) in columns.items()})
    return contexts.combined({name: ids.values[index] for name, (ids, index) in columns.items()})


def number_ids(
    raw: Sequence[Any] | NDArray[Any], what: str
) -> tuple[Ids, NDArray[np.integer[Any]]]:
    """Return the distinct ids of a column in ascending order, and the index of each row."""
    distinct, index = ranked(held(raw, what))
    return Ids(distinct), index


def entries_of(
    matrix: Any,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], int]:
    """Return the rows, columns and values of a scipy sparse matrix, and how many stored zeros."""
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
    users, items = (np.asarray(at)[stored].astype(np.int64) for at in (coo.row, coo.col))
    return users, items, data[stored], int((~stored).sum())


def build(
    users: Ids,
    items: Ids,
    columns: Mapping[str, Any],
    duplicates: Duplicates,
    account: RowAccount | None,
    merging: Merging | None,
) -> dict[str, Any]:
    """Return the fields of ``Interactions``: rows in CSR order, and one row a pair.

    ``columns`` are the users and items of the rows by index, and their weights and times.
    """
    if duplicates not in get_args(Duplicates):
        raise unknown_name("duplicates rule", duplicates, get_args(Duplicates))
    users_E, items_E, weight_E, time_E = columns.values()
    weight_E = None if weight_E is None else numbers.weights(weight_E)
    time_E = None if time_E is None else numbers.times(time_E)
    _require_same_length({name: len(c) for name, c in columns.items() if c is not None})
    n_rows = len(users_E)
    if n_rows == 0:
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
    account = account or RowAccount(read=n_rows, kept=n_rows)
    repeated = n_rows - len(pairs.column_F)
    return {
        "users": users,
        "items": items,
        "indptr_U1": pairs.start_R1,
        "items_E": pairs.column_F,
        "account": replace(
            account, kept=account.kept - repeated, duplicates=account.duplicates + repeated
        ),
        "weight_E": weight,
        "time_E": pairs.time_F,
    }


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
