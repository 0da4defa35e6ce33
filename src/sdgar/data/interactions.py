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
from sdgar.data.feedback import DislikedPairs
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.read_options import USER, Duplicates, SeenBy
from sdgar.data.summary import describe, fingerprint, statistics
from sdgar.errors import UsageError
from sdgar.show.printed import Described


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
        """Build from a scipy sparse matrix of users × items; ids are row and column numbers.

        An explicitly stored zero is not an interaction. Rows and columns without an entry
        keep their number but get no id, as they would in a file of events.
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

        Of several rows of a pair the last one in time is kept. ``merging`` collects what is found
        of the weights, where these are some rows of more; then nothing is refused for it here.
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
        pairs = DislikedPairs.of(users_E, items_E, time, neutral)
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
    def seen_pairs(self) -> DislikedPairs | None:
        """The pairs of ``seen``, by index; None if there are none."""
        if self.seen is None:
            return None
        items_E = self.seen.items_E.astype(np.int64)
        return DislikedPairs.of(self.seen.users_E, items_E, self.seen_time_E, self.seen_neutral_E)

    @property
    def disliked(self) -> History | None:
        """The pairs of ``seen`` that count against their item; None if there are none."""
        if self.seen is None or self.seen_neutral_E is None:
            return self.seen
        return None if self.seen_neutral_E.all() else self.seen.where(~self.seen_neutral_E)

    @property
    def unliked(self) -> DislikedPairs | None:
        """The pairs of ``seen`` and those without a place, by raw ids; None if there are none."""
        own = self.seen_pairs
        if own is not None:
            own = replace(own, users=self.users.at(own.users), items=self.items.at(own.items))
        return DislikedPairs.joined(own, self.unplaced)

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
            rows = rows[0]  # as scikit-learn indexes
        try:
            chosen = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)]
        except IndexError as error:
            raise UsageError(
                f"there are no such rows as {rows!r:.60} ({error}). Choose rows by a slice, by "
                f"numbers below {len(self):,}, or by one True or False a row.",
                code="bad_index",
            ) from error
        keep_E = np.zeros(len(self), bool)
        keep_E[chosen] = True
        if chosen.ndim != 1 or keep_E.sum() < len(chosen):
            said = f"choose each row once, by numbers in one dimension, got {rows!r:.60}."
            raise UsageError(said, code="bad_index")
        return self.subset(keep_E, "not chosen")

    def sizes(self) -> str:
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
        return self.lend_description(kept)

    def lend_description(self, other: Interactions) -> Interactions:
        """Return other rows with the features, the context and the dislikes of this data."""
        alike = replace(
            other,
            user_features=self.user_features,
            item_features=self.item_features,
            context=self.context,
            seen_by=self.seen_by,
        )
        return self.lend_dislikes(alike)

    def lend_dislikes(self, other: Interactions) -> Interactions:
        """Return other rows with what users do not like in this data."""
        disliked = self.unliked
        if disliked is None:
            return other
        placed = other.with_seen(disliked.users, disliked.items, disliked.time, disliked.neutral)
        return replace(placed, unplaced=DislikedPairs.joined(other.unplaced, self.unplaced))

    def fingerprint(self) -> str:
        """Return the SHA-256 of ids, pairs, weights, times and features; equal for equal data."""
        return fingerprint(self)

    def stats(self) -> dict[str, float]:
        """Return the columns of the paper's Table 1."""
        return statistics(self)
