"""Who met what: interactions in CSR order, with opaque ids and a full account of the rows.

Ids are never parsed, rounded or normalised: they are int64, uint64 or text, and come out
as they went in. Everything after this room speaks in indices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sdgar.data import contexts, moments, numbers
from sdgar.data.contexts import Fields, SeenBy
from sdgar.data.features import Features
from sdgar.data.ids import Ids, common_kind, held
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.show.printed import Described

Duplicates = Literal["error", "sum", "max", "last"]
"""What to do with rows of one (user, item) whose weights differ."""

_MAX_WEIGHT_RATIO = 1e12
_FLOAT32 = np.finfo(np.float32)


@dataclass(frozen=True, slots=True)
class RowAccount:
    """What became of every row that was read: read = kept + duplicates + filtered + rejected."""

    read: int
    kept: int
    duplicates: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    """Good rows left out on request, by reason."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Bad rows left out because the caller allowed it, by reason."""

    def __post_init__(self) -> None:
        """Assert that no row is unaccounted for."""
        out = self.duplicates + sum(self.filtered.values()) + sum(self.rejected.values())
        if self.read != self.kept + out:
            msg = f"row accounting broken: read {self.read} != kept {self.kept} + left out {out}"
            raise AssertionError(msg)

    def sentence(self) -> str:
        """One line for people."""
        parts = [f"{self.kept:,} kept"]
        parts += [f"{self.duplicates:,} duplicates"] if self.duplicates else []
        parts += [f"{n:,} filtered ({why})" for why, n in self.filtered.items() if n]
        parts += [f"{n:,} rejected ({why})" for why, n in self.rejected.items() if n]
        return f"{self.read:,} rows read = " + " + ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "read": self.read,
            "kept": self.kept,
            "duplicates": self.duplicates,
            "filtered": dict(self.filtered),
            "rejected": dict(self.rejected),
        }


@dataclass(frozen=True, slots=True)
class History:
    """Known items of every context, as CSR; items ascend within a context."""

    indptr_U1: NDArray[np.int64]
    items_E: NDArray[np.int32]

    @property
    def n_users(self) -> int:
        """Number of contexts."""
        return len(self.indptr_U1) - 1

    @classmethod
    def of_pairs(
        cls, users_E: NDArray[np.int64], items_E: NDArray[np.int64], n_users: int
    ) -> History:
        """Build from pairs in any order, each as often as it comes."""
        most = int(items_E.max(initial=0)) + 1
        users_E, items_E = np.divmod(np.unique(users_E * most + items_E), most)
        counts = np.bincount(users_E, minlength=n_users)
        return cls(np.concatenate(([0], np.cumsum(counts))), items_E.astype(np.int32))

    @property
    def users_E(self) -> NDArray[np.int64]:
        """Context of each pair."""
        return np.repeat(np.arange(self.n_users), np.diff(self.indptr_U1))

    def of(self, user: int) -> NDArray[np.int32]:
        """Items of one context."""
        return self.items_E[self.indptr_U1[user] : self.indptr_U1[user + 1]]

    def rows(self, users_T: NDArray[np.int64]) -> History:
        """The items of some contexts, in this order; those of -1 are none."""
        count_T = np.where(users_T < 0, 0, np.diff(self.indptr_U1, append=0)[users_T])
        indptr_T1 = np.concatenate(([0], np.cumsum(count_T)))
        shift_T = self.indptr_U1[users_T] - indptr_T1[:-1]
        place_E = np.arange(indptr_T1[-1]) + np.repeat(shift_T, count_T)
        return History(indptr_T1, self.items_E[place_E])

    def of_groups(self, group_U: NDArray[np.int64]) -> History:
        """What the contexts of each group have together."""
        n_groups = int(group_U.max(initial=-1)) + 1
        return History.of_pairs(group_U[self.users_E], self.items_E.astype(np.int64), n_groups)

    def union(self, other: History | None) -> History:
        """The pairs of both, of the same contexts."""
        if other is None:
            return self
        users_E = np.concatenate((self.users_E, other.users_E))
        items_E = np.concatenate((self.items_E, other.items_E)).astype(np.int64)
        return History.of_pairs(users_E, items_E, self.n_users)


@dataclass(frozen=True, repr=False)
class Interactions(Described):
    """Distinct (context, item) pairs in CSR order by context.

    >>> data = sdgar.Interactions.from_arrays(["ann", "ann", "bob"], [7, 8, 7])
    >>> data
    Interactions: 2 users × 2 items, 3 rows (75.000 % filled)
    3 rows read = 3 kept
    no times · no weights
    >>> len(data[data.users_E == 0])  # the rows of ann
    2
    """

    users: Ids
    items: Ids
    indptr_U1: NDArray[np.int64]
    items_E: NDArray[np.int32]
    """Ascending within a context."""
    rows: RowAccount
    weight_E: NDArray[np.float32] | None = None
    time_E: NDArray[np.int64] | None = None
    """Microseconds since 1970, or any other order the caller gave as integers."""
    user_features: Features | None = None
    """What is known of users beside their ids, for models that look at it."""
    item_features: Features | None = None
    context: tuple[str, ...] = contexts.USER
    """The fields of a context; with the default, ``users`` are users."""
    seen: History | None = None
    """Pairs that users know and do not like, such as films they rated low: they are not
    recommended, and nothing is learned from them unless a system draws dislikes as negatives."""
    seen_time_E: NDArray[np.int64] | None = None
    """When each of them was seen, if that is known."""
    seen_by: SeenBy = "user"
    """Whether what a user has in one context is left out in all of theirs, or may come back in
    others."""

    @classmethod
    def from_contexts(
        cls,
        fields: Mapping[str, Sequence[Any] | NDArray[Any]],
        items: Sequence[Any] | NDArray[Any],
        *,
        weight: Sequence[float] | NDArray[Any] | None = None,
        time: Sequence[int] | NDArray[Any] | None = None,
        duplicates: Duplicates = "error",
        seen_by: SeenBy = "user",
    ) -> Interactions:
        """Build with a context of several fields, one array each, such as user and daypart.

        What a user has is left out of their lists in all contexts; with ``seen_by="context"`` it
        may come back in another one.
        """
        contexts.require_seen_by(seen_by)
        if not isinstance(fields, Mapping):
            raise UsageError(
                "fields must be a mapping of names to columns, such as {'user': …, 'city': …}; got "
                f"a {type(fields).__name__}.",
                code="bad_shape",
            )
        contexts.require_fields(tuple(fields))
        if tuple(fields) == contexts.USER:
            return cls.from_arrays(
                fields["user"], items, weight=weight, time=time, duplicates=duplicates
            )
        columns = {name: _distinct(values, name) for name, values in fields.items()}
        _require_same_length(
            {name: len(index) for name, (_, index) in columns.items()} | {"items": len(items)}
        )
        ids, contexts_E = contexts.combined(
            {name: distinct.values[index] for name, (distinct, index) in columns.items()}
        )
        made = cls.from_arrays(
            ids.values[contexts_E], items, weight=weight, time=time, duplicates=duplicates
        )
        return replace(made, context=tuple(fields), seen_by=seen_by)

    @classmethod
    def from_arrays(
        cls,
        users: Sequence[Any] | NDArray[Any],
        items: Sequence[Any] | NDArray[Any],
        *,
        weight: Sequence[float] | NDArray[Any] | None = None,
        time: Sequence[int] | NDArray[Any] | None = None,
        duplicates: Duplicates = "error",
    ) -> Interactions:
        """Build from one array a column; NumPy alone is enough."""
        user_ids, users_E = _distinct(users, "user")
        item_ids, items_E = _distinct(items, "item")
        return cls.from_indices(
            user_ids,
            item_ids,
            users_E,
            items_E,
            weight_E=weight,
            time_E=time,
            duplicates=duplicates,
        )

    @classmethod
    def from_csr(cls, matrix: Any, *, weighted: bool = False) -> Interactions:
        """Build from a scipy sparse matrix of users × items; ids are row and column numbers.

        An explicitly stored zero is not an interaction. Rows and columns without an entry
        keep their number but get no id, as they would in a file of events.
        """
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
        weight = data[stored] if weighted else None
        made = cls.from_arrays(
            np.asarray(coo.row)[stored].astype(np.int64),
            np.asarray(coo.col)[stored].astype(np.int64),
            weight=weight,
            duplicates="sum",
        )
        zeros = int((~stored).sum())
        account = replace(
            made.rows, read=made.rows.read + zeros, filtered={"zero_weight": zeros} if zeros else {}
        )
        return replace(made, rows=account)

    @classmethod
    def from_indices(
        cls,
        users: Ids,
        items: Ids,
        users_E: NDArray[np.integer[Any]],
        items_E: NDArray[np.integer[Any]],
        *,
        weight_E: Sequence[float] | NDArray[Any] | None = None,
        time_E: Sequence[int] | NDArray[Any] | None = None,
        duplicates: Duplicates = "error",
        account: RowAccount | None = None,
    ) -> Interactions:
        """Sort into CSR order and collapse repeated pairs; the last row in time wins."""
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
        key_E = users_E.astype(np.int64) * len(items) + items_E.astype(np.int64)
        order = np.argsort(key_E, kind="stable")
        last_E = np.append(np.diff(key_E[order]) != 0, True)
        if time_E is not None and not last_E.all():
            order = np.lexsort((time_E, key_E))
        key_E = key_E[order]
        kept = order[last_E]
        weight = None
        if weight_E is not None:
            with np.errstate(over="ignore"):  # sums beyond float64 are refused as infinite
                weight = _collapse(weight_E[order], key_E, last_E, duplicates, users, items)
        indptr = np.zeros(len(users) + 1, np.int64)
        np.cumsum(np.bincount(users_E[kept], minlength=len(users)), out=indptr[1:])
        n_duplicates = len(key_E) - len(kept)
        account = account or RowAccount(read=len(key_E), kept=len(key_E))
        return cls(
            users=users,
            items=items,
            indptr_U1=indptr,
            items_E=items_E[kept].astype(np.int32),
            rows=replace(
                account,
                kept=account.kept - n_duplicates,
                duplicates=account.duplicates + n_duplicates,
            ),
            weight_E=weight,
            time_E=None if time_E is None else time_E[kept],
        )

    def merge(self, other: Interactions) -> Interactions:
        """Rows of both; a pair in both counts once, with the later time and its own weight."""
        if self.context != other.context:
            raise DataError(
                f"the contexts of the two parts differ: {', '.join(self.context)} and "
                f"{', '.join(other.context)}. Read both with the same --context.",
                code="schema_mismatch",
            )
        mine, theirs = self._kinds(), other._kinds()
        odd = [n for n in mine if (mine[n] == "text") != (theirs[n] == "text")]
        if odd:
            differ = "; ".join(f"{n} {mine[n]} and {theirs[n]}" for n in odd)
            raise DataError(
                f"the two parts hold ids of different kinds: {differ}. Write both with the same "
                "column types.",
                code="schema_mismatch",
            )
        if self.fields is not None and other.fields is not None:
            for one, two in zip(self.fields.values, other.fields.values, strict=True):
                common_kind(one.values, two.values)
        n = len(self)
        users, users_E = _union(self.users, self.users_E, other.users, other.users_E)
        items, items_E = _union(self.items, self.items_E, other.items, other.items_E)

        def both(mine: NDArray[Any] | None, theirs: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if mine is None or theirs is None else np.concatenate((mine, theirs))

        merged = Interactions.from_indices(
            users,
            items,
            users_E,
            items_E,
            weight_E=both(self.weight_E, other.weight_E),
            time_E=both(self.time_E, other.time_E),
            duplicates="last",
            account=RowAccount(read=n + len(other), kept=n + len(other)),
        )
        return other._seen_in(self._alike(merged))

    def _kinds(self) -> dict[str, str]:
        """How users (or the fields of contexts) and items are held."""
        fields = {"users": self.users}
        if self.fields is not None:
            fields = dict(zip(self.fields.names, self.fields.values, strict=True))
        return {name: ids.kind for name, ids in (fields | {"items": self.items}).items()}

    def with_seen(
        self, users: NDArray[Any], items: NDArray[Any], time: NDArray[np.int64] | None = None
    ) -> Interactions:
        """The same rows, with pairs of raw ids that users know and do not like, and since when.

        Users and items that have no row here, and pairs that are rows, are left out.
        """
        users_E, items_E = self.users.index_of(users), self.items.index_of(items)
        pairs = users_E * self.n_items + items_E
        known = (users_E >= 0) & (items_E >= 0)
        known &= ~np.isin(pairs, self.users_E * self.n_items + self.items_E)
        if not known.any():
            return self
        pairs, time = pairs[known], None if time is None else time[known]
        if self.seen is not None:
            pairs = np.append(pairs, self.seen.users_E * self.n_items + self.seen.items_E)
            untimed = time is None or self.seen_time_E is None
            time = None if untimed else np.append(time, self.seen_time_E)  # type: ignore[arg-type]
        if time is not None:  # a pair is known since it came first
            order = np.argsort(time, kind="stable")
            pairs, time = pairs[order], time[order]
        pairs, first = np.unique(pairs, return_index=True)
        seen = History.of_pairs(pairs // self.n_items, pairs % self.n_items, self.n_users)
        return replace(self, seen=seen, seen_time_E=None if time is None else time[first])

    def seen_before(self, moment: int) -> Interactions:
        """The same rows, with only those dislikes that were known before a moment."""
        if self.seen is None or self.seen_time_E is None:
            return self
        keep_E = self.seen_time_E < moment
        bare = replace(self, seen=None, seen_time_E=None)
        return bare.with_seen(
            self.users.at(self.seen.users_E[keep_E]),
            self.items.at(self.seen.items_E[keep_E]),
            self.seen_time_E[keep_E],
        )

    def with_features(self, users: Features | None, items: Features | None) -> Interactions:
        """The same rows, with what is known of users and items."""
        return replace(self, user_features=users, item_features=items)

    @property
    def n_users(self) -> int:
        """Number of contexts."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def __len__(self) -> int:
        """Number of distinct interactions."""
        return len(self.items_E)

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, by which scikit-learn knows that rows can be chosen by number."""
        return (len(self),)

    def __getitem__(self, rows: Any) -> Interactions:
        """Some rows: by a slice, their numbers, or one True or False a row."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # so does scikit-learn ask
        chosen = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        keep_E = np.zeros(len(self), bool)
        if chosen.dtype == bool and chosen.shape == keep_E.shape:
            keep_E = chosen
        elif chosen.dtype.kind in "iu" and chosen.ndim == 1:
            _require_rows(chosen, len(self))
            keep_E[chosen] = True
        else:
            raise UsageError(
                f"rows are chosen by a slice, by numbers, or by one True or False for each of "
                f"{len(self):,} rows, got {rows!r:.60}.",
                code="bad_index",
            )
        return self.subset(keep_E, "not chosen")

    def sizes(self) -> str:
        """How large the data is, in words."""
        whom = "users" if self.context == contexts.USER else "contexts"
        return f"{self.n_users:,} {whom} × {self.n_items:,} items, {len(self):,} rows"

    def _lines(self) -> list[str]:
        times = weights = features = ""
        if self.time_E is not None:
            first, last = moments.shown(self.time_E.min()), moments.shown(self.time_E.max())
            times = f"times from {first} to {last}"
        if self.weight_E is not None:
            weights = f"weights from {self.weight_E.min():g} to {self.weight_E.max():g}"
        for what, known in (("users", self.user_features), ("items", self.item_features)):
            features += "" if known is None else f" · {known.n_features:,} features of {what}"
        lines = [
            f"Interactions: {self.sizes()} ({100 * self.stats()['density']:.3f} % filled)",
            self.rows.sentence(),
            f"{times or 'no times'} · {weights or 'no weights'}{features}",
        ]
        if self.context != contexts.USER:
            lines.append(f"a context is {', '.join(self.context)}")
        return lines

    @cached_property
    def users_E(self) -> NDArray[np.int64]:
        """Context of each interaction."""
        return self.history.users_E

    @cached_property
    def fields(self) -> Fields | None:
        """The fields of the contexts, if they have several."""
        return Fields.of(self.context, self.users) if self.context != contexts.USER else None

    @property
    def user_U(self) -> NDArray[Any]:
        """The id of each context's user, who may have several contexts."""
        if self.fields is None:
            return self.users.values
        at = self.fields.names.index("user")
        return self.fields.values[at].at(self.fields.index_UF[:, at])

    @property
    def history(self) -> History:
        """The pairs alone."""
        return History(self.indptr_U1, self.items_E)

    @cached_property
    def left_out(self) -> History:
        """What is no negative of each context, and not recommended to it."""
        return contexts.left_out(self.history, self.fields, self.seen_by)

    def subset(self, keep_E: NDArray[np.bool_], reason: str) -> Interactions:
        """Keep some interactions; users and items left without any lose their id."""
        users_kept, users_E = np.unique(self.users_E[keep_E], return_inverse=True)
        items_kept, items_E = np.unique(self.items_E[keep_E], return_inverse=True)
        left_out = int((~keep_E).sum())
        before = self.rows
        account = replace(
            before,
            kept=before.kept - left_out,
            filtered={**before.filtered, reason: before.filtered.get(reason, 0) + left_out},
        )
        kept = Interactions.from_indices(
            Ids(self.users.at(users_kept)),
            Ids(self.items.at(items_kept)),
            users_E,
            items_E,
            weight_E=None if self.weight_E is None else self.weight_E[keep_E],
            time_E=None if self.time_E is None else self.time_E[keep_E],
            account=account,
        )
        return self._alike(kept)

    def _alike(self, other: Interactions) -> Interactions:
        """Other rows of the same kind of contexts, with the same features."""
        alike = replace(
            other,
            user_features=self.user_features,
            item_features=self.item_features,
            context=self.context,
            seen_by=self.seen_by,
        )
        return self._seen_in(alike)

    def _seen_in(self, other: Interactions) -> Interactions:
        """Other rows, with what is seen here and not liked."""
        if self.seen is None:
            return other
        users, items = self.users.at(self.seen.users_E), self.items.at(self.seen.items_E)
        return other.with_seen(users, items, self.seen_time_E)

    def fingerprint(self) -> str:
        """SHA-256 of ids, pairs, weights, times and features: equal for equal data."""
        digest = hashlib.sha256()
        for ids in (self.users, self.items):
            digest.update(ids.kind.encode())
            text = ids.kind == "text"
            digest.update("\0".join(ids.values).encode() if text else ids.values.tobytes())
        for array in (self.indptr_U1, self.items_E, self.weight_E, self.time_E):
            digest.update(b"-" if array is None else array.tobytes())
        for features in (self.user_features, self.item_features):
            if features is not None:
                digest.update(features.digest())
        if self.seen is not None:
            digest.update(b"seen" + self.seen.indptr_U1.tobytes() + self.seen.items_E.tobytes())
        if self.seen_time_E is not None:
            digest.update(self.seen_time_E.tobytes())
        if self.fields is not None and self.seen_by == "user":
            digest.update(b"seen by user")
        return digest.hexdigest()

    def stats(self) -> dict[str, float]:
        """The columns of the paper's Table 1."""
        per_item = np.bincount(self.items_E, minlength=self.n_items)
        top = -(-self.n_items // 20)
        return {
            "users": self.n_users,
            "items": self.n_items,
            "interactions": len(self),
            "density": len(self) / (self.n_users * self.n_items),
            "concentration": float(np.sort(per_item)[::-1][:top].sum() / len(self)),
        }


def _require_rows(chosen: NDArray[np.integer[Any]], n: int) -> None:
    """Refuse numbers of rows that are not there, and those that come twice."""
    wrong = chosen[(chosen < 0) | (chosen >= n)]
    if len(wrong):
        raise UsageError(
            f"there is no row {int(wrong[0])}: rows are numbered from 0 to {n - 1:,}.",
            code="bad_index",
        )
    if len(np.unique(chosen)) < len(chosen):
        raise UsageError(
            "the numbers of rows hold one twice, and a row counts once. Leave repeated ones out.",
            code="bad_index",
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


def _distinct(raw: Sequence[Any] | NDArray[Any], what: str) -> tuple[Ids, NDArray[np.int64]]:
    distinct, index = np.unique(held(raw, f"{what} ids"), return_inverse=True)
    return Ids(distinct), index.astype(np.int64)


def _union(
    mine: Ids, mine_E: NDArray[Any], theirs: Ids, theirs_E: NDArray[Any]
) -> tuple[Ids, NDArray[np.int64]]:
    """The ids of two parts, and which of them each row of both has."""
    parts = common_kind(mine.at(mine_E), theirs.at(theirs_E))
    distinct, index = np.unique(np.concatenate(parts), return_inverse=True)
    return Ids(distinct), index.astype(np.int64)


def _collapse(
    weight_E: NDArray[np.float64],
    key_E: NDArray[np.int64],
    last_E: NDArray[np.bool_],
    duplicates: Duplicates,
    users: Ids,
    items: Ids,
) -> NDArray[np.float32]:
    """One weight a pair, from rows sorted by pair; ``last_E`` marks the last row of each."""
    starts = np.concatenate(([0], np.flatnonzero(last_E)[:-1] + 1))
    if duplicates == "sum":
        merged = np.add.reduceat(weight_E, starts)
    elif duplicates == "max":
        merged = np.maximum.reduceat(weight_E, starts)
    else:
        merged = weight_E[last_E]
        differs = np.maximum.reduceat(weight_E, starts) != np.minimum.reduceat(weight_E, starts)
        if duplicates == "error" and differs.any():
            key = int(key_E[last_E][differs][0])
            user, item = divmod(key, len(items))
            raise DataError(
                f"{int(differs.sum()):,} (user, item) pairs occur with different weights, the "
                f"first is user {users.values[user]!r}, item {items.values[item]!r}. "
                "Say what is meant with --duplicates sum, max or last (duplicates=… in Python).",
                code="differing_weights",
            )
    positive = merged[merged > 0]
    if len(positive) and positive.max() > positive.min() * _MAX_WEIGHT_RATIO:
        raise DataError(
            f"weights range from {positive.min():g} to {positive.max():g}, more than a factor of "
            "1e12: the smallest would be lost in rounding. Rescale or clip them.",
            code="weight_range",
        )
    if merged.sum() > _FLOAT32.max or (len(positive) and positive.min() < _FLOAT32.tiny):
        raise DataError(
            f"weights from {merged.min():g} to {merged.max():g} that add up to {merged.sum():g} "
            f"do not fit float32, which ends at {_FLOAT32.max:g}. Rescale or clip them.",
            code="weight_range",
        )
    return merged.astype(np.float32)
