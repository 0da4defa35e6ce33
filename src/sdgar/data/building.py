"""The ways to build interactions: from arrays, contexts, a sparse matrix, or indices.

Every way ends in ``from_indices``, which sorts the rows by (context, item) and keeps one row a
pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sdgar.data import contexts, numbers
from sdgar.data.account import RowAccount
from sdgar.data.ids import Ids, held
from sdgar.data.merging import Merging
from sdgar.data.read_options import USER, Duplicates
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.maths.order import ranked
from sdgar.maths.pairs import distinct_pairs, sorted_rows


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
