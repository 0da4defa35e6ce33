"""Interactions: who met what, in CSR order, with opaque ids and an account of every row.

Ids are never parsed, rounded or normalised: they are int64, uint64 or text, and come out
as they went in. Everything after this package uses indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import one_of
from sdgar.data import building, contexts
from sdgar.data.building import Merging, RowAccount
from sdgar.data.contexts import Fields
from sdgar.data.features import Features
from sdgar.data.feedback import NotLikedPairs
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.read_options import USER, Duplicates, SeenBy
from sdgar.data.summary import describe, fingerprint, statistics
from sdgar.errors import UsageError
from sdgar.show.printed import Described


@dataclass(frozen=True, repr=False)
class Interactions(Described):
    """Distinct (context, item) pairs in CSR order by context.

    A context is a user, or a user with further fields such as the part of the day.

    >>> data = sdgar.Interactions.from_arrays(["ann", "ann", "bob"], [7, 8, 7])
    >>> data
    Interactions: 2 users × 2 items, 3 rows (75.000 % filled)
    3 rows read = 3 kept
    no times · no weights
    >>> len(data[data.users_E == 0])  # the rows of ann
    2
    """

    users: Ids
    """The ids of the contexts, which are users by default."""
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
    """The time of each row: microseconds since 1970, or any integers that increase with time."""
    user_features: Features | None = None
    """The features of users, for models that use them."""
    item_features: Features | None = None
    """The features of items, for models that use them."""
    context: tuple[str, ...] = USER
    """The names of the fields of a context."""
    seen: History | None = None
    """Pairs with feedback that is not positive: dislikes and neutral ratings. They are not
    recommended, and nothing is learned from them unless a system draws dislikes as negatives."""
    seen_time_E: NDArray[np.int64] | None = None
    """The time of each pair of ``seen``, if it is known."""
    seen_neutral_E: NDArray[np.bool_] | None = None
    """True for each pair of ``seen`` that is neutral: it does not count against its item and is
    not drawn as a dislike. None if no pair is neutral."""
    not_liked_elsewhere: NotLikedPairs | None = None
    """Pairs like ``seen``, by id, whose item has no row here. A model that contains the item leaves
    it out of the recommendations for that user."""
    seen_by: SeenBy = "user"
    """``"user"``: an item that the user has in any context is recommended in none; ``"context"``:
    it is only left out in that context."""

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
        users, users_E = building.number_contexts(fields)
        ids, items_E = building.number_ids(items, "item ids")
        made = cls.from_indices(
            users, ids, users_E, items_E, weight_E=weight, time_E=time, duplicates=duplicates
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
        user_ids, users_E = building.number_ids(users, "user ids")
        item_ids, items_E = building.number_ids(items, "item ids")
        ids = user_ids, item_ids
        return cls.from_indices(
            *ids, users_E, items_E, weight_E=weight, time_E=time, duplicates=duplicates
        )

    @classmethod
    def from_csr(cls, matrix: Any, *, weighted: bool = False) -> Interactions:
        """Build from a scipy sparse matrix of users × items.

        An explicitly stored zero is not an interaction. Ids are the row and column numbers of
        the matrix; rows and columns without an entry get no id.
        """
        users, items, weight, zeros = building.entries_of(matrix)
        made = cls.from_arrays(users, items, weight=weight if weighted else None, duplicates="sum")
        filtered = {"zero_weight": zeros} if zeros else {}
        account = replace(made.account, read=made.account.read + zeros, filtered=filtered)
        return replace(made, account=account)

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
        merging: Merging | None = None,
    ) -> Interactions:
        """Build from indices of known ids: sort into CSR order and keep one row a pair.

        If the weights of a pair differ, ``duplicates`` decides. Pass ``merging`` when the rows
        are part of a larger set: conflicting weights are recorded there and not refused here.
        """
        columns = {"users": users_E, "items": items_E, "weights": weight_E, "times": time_E}
        return cls(**building.build(users, items, columns, duplicates, account, merging))

    def with_seen(
        self,
        users: NDArray[Any],
        items: NDArray[Any],
        time: NDArray[np.int64] | None = None,
        neutral: NDArray[np.bool_] | None = None,
    ) -> Interactions:
        """Return the same rows with pairs of raw ids whose feedback is not positive.

        ``time`` says when each pair became known, and ``neutral`` which of them are neutral and
        no dislikes. Users and items without a row here, and pairs that are rows, are left out.
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
        """Return the same rows with pairs by index whose feedback is not positive.

        An index of -1 marks a user or item without a row. A pair with a neutral row is neutral.
        """
        pairs = NotLikedPairs.of(users_E, items_E, time, neutral)
        known = (users_E >= 0) & (items_E >= 0)
        rows = self.users_E * self.n_items + self.items_E
        known &= ~np.isin(pairs.numbers(self.n_items), rows)
        if not known.any():
            return self
        pairs = pairs.where(known).distinct(self.seen_pairs, self.n_items)
        return replace(
            self,
            seen=History.of_pairs(pairs.users, pairs.items, self.n_users),
            seen_time_E=pairs.time,
            seen_neutral_E=pairs.neutral if pairs.neutral.any() else None,
        )

    @property
    def seen_pairs(self) -> NotLikedPairs | None:
        """The pairs of ``seen``, by index; None if there are none."""
        if self.seen is None:
            return None
        items_E = self.seen.items_E.astype(np.int64)
        return NotLikedPairs.of(self.seen.users_E, items_E, self.seen_time_E, self.seen_neutral_E)

    @property
    def disliked(self) -> History | None:
        """The pairs of ``seen`` that are dislikes; None if there are none."""
        if self.seen is None or self.seen_neutral_E is None:
            return self.seen
        return None if self.seen_neutral_E.all() else self.seen.where(~self.seen_neutral_E)

    @property
    def not_liked_by_id(self) -> NotLikedPairs | None:
        """The pairs of ``seen`` and ``not_liked_elsewhere``, by raw ids; None if there are none."""
        own = self.seen_pairs
        if own is not None:
            own = replace(own, users=self.users.at(own.users), items=self.items.at(own.items))
        return NotLikedPairs.joined(own, self.not_liked_elsewhere)

    def with_features(self, users: Features | None, items: Features | None) -> Interactions:
        """Return the same rows with features of users and items."""
        return replace(self, user_features=users, item_features=items)

    @property
    def n_users(self) -> int:
        """The number of contexts, which are users by default."""
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
        """Return some rows, chosen by a slice, by numbers, or by a boolean mask."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # as scikit-learn indexes
        try:
            chosen = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)]
        except IndexError as error:
            raise UsageError(
                f"there are no such rows as {rows!r:.60} ({error}). Choose rows by a slice, by "
                f"numbers below {len(self):,}, or by a boolean mask with one value per row.",
                code="bad_index",
            ) from error
        keep_E = np.zeros(len(self), bool)
        keep_E[chosen] = True
        if chosen.ndim != 1 or keep_E.sum() < len(chosen):
            said = "each row may be chosen only once; give a one-dimensional array of row numbers"
            raise UsageError(f"{said}, got {rows!r:.60}.", code="bad_index")
        return self.subset(keep_E, "not chosen")

    def size_text(self) -> str:
        """Return the size of the data in words."""
        what = "users" if self.context == USER else "contexts"
        return f"{self.n_users:,} {what} × {self.n_items:,} items, {len(self):,} rows"

    def _lines(self) -> list[str]:
        return describe(self)

    @cached_property
    def users_E(self) -> NDArray[np.int64]:
        """The context of each row."""
        return self.history.users_E

    @cached_property
    def fields(self) -> Fields | None:
        """The values of the contexts' fields; None where a context is a user alone."""
        return Fields.of(self.context, self.users) if self.context != USER else None

    @property
    def user_id_U(self) -> NDArray[Any]:
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
    def excluded(self) -> History:
        """The items that are neither drawn as negatives of a context nor recommended to it."""
        return contexts.excluded(self.history, self.fields, self.seen_by)

    def subset(self, keep_E: NDArray[np.bool_], reason: str) -> Interactions:
        """Return some rows; users and items without a row are dropped, the others renumbered."""
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
        return self.copy_description_to(kept)

    def copy_description_to(self, other: Interactions) -> Interactions:
        """Return other rows with this data's features, context and pairs that are not liked."""
        alike = replace(
            other,
            user_features=self.user_features,
            item_features=self.item_features,
            context=self.context,
            seen_by=self.seen_by,
        )
        return self.copy_not_liked_to(alike)

    def copy_not_liked_to(self, other: Interactions) -> Interactions:
        """Return other rows with the pairs of this data that are not liked."""
        pairs = self.not_liked_by_id
        if pairs is None:
            return other
        placed = other.with_seen(pairs.users, pairs.items, pairs.time, pairs.neutral)
        elsewhere = NotLikedPairs.joined(other.not_liked_elsewhere, self.not_liked_elsewhere)
        return replace(placed, not_liked_elsewhere=elsewhere)

    def fingerprint(self) -> str:
        """Return the SHA-256 of ids, pairs, weights, times, features, ``seen`` and ``seen_by``."""
        return fingerprint(self)

    def stats(self) -> dict[str, float]:
        """Return users, items, interactions, density, and the share of the most popular 5 %."""
        return statistics(self)
