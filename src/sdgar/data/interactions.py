"""Interactions: who met what, in CSR order, with opaque ids and an account of every row.

Ids are never parsed, rounded or normalised: they are int64, uint64 or text, and come out
as they went in. Everything after this package uses indices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import one_of
from sdgar.data import building, contexts, numbers
from sdgar.data.account import RowAccount
from sdgar.data.contexts import Fields
from sdgar.data.features import Features
from sdgar.data.feedback import DislikedPairs
from sdgar.data.history import History
from sdgar.data.ids import Ids, common_kind
from sdgar.data.read_options import USER, Duplicates, SeenBy
from sdgar.errors import DataError, UsageError
from sdgar.show.printed import Described

__all__ = ["Duplicates", "History", "Interactions", "RowAccount"]


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
    """The ids of the contexts; with the default ``context``, these are users."""
    items: Ids
    """The ids of the items."""
    indptr_U1: NDArray[np.int64]
    """The rows of context u are ``indptr_U1[u]`` to ``indptr_U1[u + 1] - 1``."""
    items_E: NDArray[np.int32]
    """The item of each row; items ascend within a context."""
    account: RowAccount
    """The account of all rows that were read."""
    weight_E: NDArray[np.float32] | None = None
    """The weight of each row; without weights every row counts once."""
    time_E: NDArray[np.int64] | None = None
    """The time of each row in microseconds since 1970, or in any other order given as integers."""
    user_features: Features | None = None
    """The features of users, for models that use them."""
    item_features: Features | None = None
    """The features of items, for models that use them."""
    context: tuple[str, ...] = USER
    """The names of the fields of a context."""
    seen: History | None = None
    """Pairs that users know and dislike, such as films they rated low: they are not
    recommended, and nothing is learned from them unless a system draws dislikes as negatives."""
    seen_time_E: NDArray[np.int64] | None = None
    """The time of each pair of ``seen``, if it is known."""
    seen_neutral_E: NDArray[np.bool_] | None = None
    """True for each pair of ``seen`` that does not count against its item, such as a film that was
    found passable: it is not drawn as a dislike. None if all pairs do."""
    unplaced: DislikedPairs | None = None
    """Disliked pairs whose item has no row here. Nothing is trained on them; a model that contains
    the item leaves it out of the recommendations for that user."""
    seen_by: SeenBy = "user"
    """With ``"user"``, an item that a user has in one context is left out of their lists in all
    contexts; with ``"context"``, only in the context that has it."""

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
        """Build from contexts of several fields, such as user and daypart, one array a field.

        An item that a user has is left out of their lists in all contexts; with
        ``seen_by="context"`` it may come back in another context.
        """
        one_of("seen_by", seen_by, get_args(SeenBy))
        built = building.from_contexts(
            fields, items, weight=weight, time=time, duplicates=duplicates
        )
        if tuple(fields) == USER:
            return cls(**built._asdict())
        return cls(**built._asdict(), context=tuple(fields), seen_by=seen_by)

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
        built = building.from_arrays(users, items, weight=weight, time=time, duplicates=duplicates)
        return cls(**built._asdict())

    @classmethod
    def from_csr(cls, matrix: Any, *, weighted: bool = False) -> Interactions:
        """Build from a scipy sparse matrix of users × items; ids are row and column numbers.

        An explicitly stored zero is not an interaction. Rows and columns without an entry
        keep their number but get no id, as they would in a file of events.
        """
        return cls(**building.from_csr(matrix, weighted=weighted)._asdict())

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
        """Build from indices of known ids: sort into CSR order and keep one row a pair.

        Of several rows of a pair the last one in time is kept.
        """
        built = building.from_indices(
            users,
            items,
            users_E,
            items_E,
            weight_E=weight_E,
            time_E=time_E,
            duplicates=duplicates,
            account=account,
        )
        return cls(**built._asdict())

    def merge(self, other: Interactions) -> Interactions:
        """Return the rows of both; a pair in both counts once, with its later time and weight."""
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
        """Return the type of the ids of users (or of each field of contexts) and of items."""
        fields = {"users": self.users}
        if self.fields is not None:
            fields = dict(zip(self.fields.names, self.fields.values, strict=True))
        return {name: ids.kind for name, ids in (fields | {"items": self.items}).items()}

    def with_seen(
        self,
        users: NDArray[Any],
        items: NDArray[Any],
        time: NDArray[np.int64] | None = None,
        neutral: NDArray[np.bool_] | None = None,
    ) -> Interactions:
        """Return the same rows with pairs of raw ids that users know and dislike.

        ``time`` says when each pair became known, and ``neutral`` which of them do not count
        against their item. Users and items that have no row here, and pairs that are rows, are
        left out.
        """
        users_E, items_E = self.users.index_of(users), self.items.index_of(items)
        return self.with_seen_pairs(users_E, items_E, time, neutral)

    def with_seen_pairs(
        self,
        users_E: NDArray[np.int64],
        items_E: NDArray[np.int64],
        time: NDArray[np.int64] | None = None,
        neutral: NDArray[np.bool_] | None = None,
    ) -> Interactions:
        """Return the same rows with pairs by index that users know and dislike.

        An index of -1 stands for a user or an item that has no row here. A pair that is neutral
        once is neutral.
        """
        pairs = users_E * self.n_items + items_E
        known = (users_E >= 0) & (items_E >= 0)
        known &= ~np.isin(pairs, self.users_E * self.n_items + self.items_E)
        if not known.any():
            return self
        spared = pairs[:0] if neutral is None else pairs[known & neutral]
        pairs, time = pairs[known], None if time is None else time[known]
        if self.seen is not None:
            before = self.seen.users_E * self.n_items + self.seen.items_E
            pairs = np.append(pairs, before)
            if self.seen_neutral_E is not None:
                spared = np.append(spared, before[self.seen_neutral_E])
            untimed = time is None or self.seen_time_E is None
            time = None if untimed else np.append(time, self.seen_time_E)  # type: ignore[arg-type]
        if time is not None:  # a pair is known since it came first
            order = np.argsort(time, kind="stable")
            pairs, time = pairs[order], time[order]
        pairs, first = np.unique(pairs, return_index=True)
        seen = History.of_pairs(pairs // self.n_items, pairs % self.n_items, self.n_users)
        return replace(
            self,
            seen=seen,
            seen_time_E=None if time is None else time[first],
            seen_neutral_E=np.isin(pairs, spared) if len(spared) else None,
        )

    @property
    def disliked(self) -> History | None:
        """The pairs of ``seen`` that count against their item; None if there are none."""
        if self.seen is None or self.seen_neutral_E is None:
            return self.seen
        if self.seen_neutral_E.all():
            return None
        return self.seen.where(~self.seen_neutral_E)

    @property
    def unliked(self) -> DislikedPairs | None:
        """The pairs of ``seen`` and those without a place, by raw ids; None if there are none."""
        own = None
        if self.seen is not None:
            users, items = self.users.at(self.seen.users_E), self.items.at(self.seen.items_E)
            none_E = np.zeros(len(users), bool)
            neutral_E = none_E if self.seen_neutral_E is None else self.seen_neutral_E
            own = DislikedPairs(users, items, self.seen_time_E, neutral_E)
        return DislikedPairs.joined(own, self.unplaced)

    def seen_before(self, moment: int) -> Interactions:
        """Return the same rows with only the pairs of ``seen`` known before a moment."""
        if self.unplaced is not None:
            return replace(self, unplaced=None).seen_before(moment)
        if self.seen is None or self.seen_time_E is None:
            return self
        keep_E = self.seen_time_E < moment
        bare = replace(self, seen=None, seen_time_E=None, seen_neutral_E=None)
        return bare.with_seen_pairs(
            self.seen.users_E[keep_E],
            self.seen.items_E[keep_E].astype(np.int64),
            self.seen_time_E[keep_E],
            None if self.seen_neutral_E is None else self.seen_neutral_E[keep_E],
        )

    def with_features(self, users: Features | None, items: Features | None) -> Interactions:
        """Return the same rows with features of users and items."""
        return replace(self, user_features=users, item_features=items)

    @property
    def n_users(self) -> int:
        """The number of contexts."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.items)

    def __len__(self) -> int:
        """Return the number of rows, which are distinct pairs."""
        return len(self.items_E)

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, in a tuple; scikit-learn needs it to choose rows by number."""
        return (len(self),)

    def __getitem__(self, rows: Any) -> Interactions:
        """Return some rows, chosen by a slice, by numbers, or by one True or False a row."""
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
        """Return the size of the data in words."""
        what = "users" if self.context == USER else "contexts"
        return f"{self.n_users:,} {what} × {self.n_items:,} items, {len(self):,} rows"

    def _lines(self) -> list[str]:
        times = weights = features = ""
        if self.time_E is not None:
            first, last = numbers.shown(self.time_E.min()), numbers.shown(self.time_E.max())
            times = f"times from {first} to {last}"
        if self.weight_E is not None:
            weights = f"weights from {self.weight_E.min():g} to {self.weight_E.max():g}"
        for what, known in (("users", self.user_features), ("items", self.item_features)):
            features += "" if known is None else f" · {known.n_features:,} features of {what}"
        lines = [
            f"Interactions: {self.sizes()} ({100 * self.stats()['density']:.3f} % filled)",
            self.account.sentence(),
            f"{times or 'no times'} · {weights or 'no weights'}{features}",
        ]
        if self.context != USER:
            lines.append(f"a context is {', '.join(self.context)}")
        return lines

    @cached_property
    def users_E(self) -> NDArray[np.int64]:
        """The context of each row."""
        return self.history.users_E

    @cached_property
    def fields(self) -> Fields | None:
        """The values of the contexts' fields; None where a context is a user alone."""
        return Fields.of(self.context, self.users) if self.context != USER else None

    @property
    def user_U(self) -> NDArray[Any]:
        """The id of the user of each context; a user may have several contexts."""
        if self.fields is None:
            return self.users.values
        at = self.fields.names.index("user")
        return self.fields.values[at].at(self.fields.index_UF[:, at])

    @property
    def history(self) -> History:
        """The pairs without weights and times."""
        return History(self.indptr_U1, self.items_E)

    @cached_property
    def left_out(self) -> History:
        """The items that are neither drawn as negatives of a context nor recommended to it."""
        return contexts.left_out(self.history, self.fields, self.seen_by)

    def subset(self, keep_E: NDArray[np.bool_], reason: str) -> Interactions:
        """Return some rows; users and items that are left without a row lose their id."""
        users_kept, users_E = np.unique(self.users_E[keep_E], return_inverse=True)
        items_kept, items_E = np.unique(self.items_E[keep_E], return_inverse=True)
        left_out = int((~keep_E).sum())
        before = self.account
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

    def with_ids_of(self, other: Interactions) -> Interactions:
        """Return the same rows with the ids of other rows, which have all of these ids and more."""
        users_U, items_I = (
            theirs.index_of(mine.values)
            for mine, theirs in ((self.users, other.users), (self.items, other.items))
        )
        same = Interactions.from_indices(
            other.users,
            other.items,
            users_U[self.users_E],
            items_I[self.items_E],
            weight_E=self.weight_E,
            time_E=self.time_E,
            account=self.account,
        )
        return self._alike(same)

    def _alike(self, other: Interactions) -> Interactions:
        """Return other rows with the features, the context and the dislikes of this data."""
        alike = replace(
            other,
            user_features=self.user_features,
            item_features=self.item_features,
            context=self.context,
            seen_by=self.seen_by,
        )
        return self._seen_in(alike)

    def _seen_in(self, other: Interactions) -> Interactions:
        """Return other rows with what users do not like in this data."""
        disliked = self.unliked
        if disliked is None:
            return other
        placed = other.with_seen(disliked.users, disliked.items, disliked.time, disliked.neutral)
        return replace(placed, unplaced=DislikedPairs.joined(other.unplaced, self.unplaced))

    def fingerprint(self) -> str:
        """Return the SHA-256 of ids, pairs, weights, times and features; equal for equal data."""
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
        if self.seen_neutral_E is not None:
            digest.update(b"neutral" + self.seen_neutral_E.tobytes())
        if self.fields is not None and self.seen_by == "user":
            digest.update(b"seen by user")
        return digest.hexdigest()

    def stats(self) -> dict[str, float]:
        """Return the columns of the paper's Table 1."""
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
    """Raise if a row number does not exist or comes twice."""
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


def _union(
    mine: Ids, mine_E: NDArray[Any], theirs: Ids, theirs_E: NDArray[Any]
) -> tuple[Ids, NDArray[np.int64]]:
    """Return the ids of both parts together, and the index among them of each row of both."""
    parts = common_kind(mine.at(mine_E), theirs.at(theirs_E))
    distinct, index = np.unique(np.concatenate(parts), return_inverse=True)
    return Ids(distinct), index.astype(np.int64)
