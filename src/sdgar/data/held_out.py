"""Held-out interactions, in the index space of the model that is to predict them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sdgar.data.contexts import Fields, excluded
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import SeenBy
from sdgar.errors import DataError
from sdgar.maths.rng import Stream, sort_keys


class Catalogue(Protocol):
    """Training data or a model: whatever gives users and items their indices."""

    @property
    def users(self) -> Ids:
        """The ids of the contexts."""

    @property
    def items(self) -> Ids:
        """The ids of the items."""

    @property
    def fields(self) -> Fields | None:
        """The values of the contexts' fields; None where a context is a user alone."""

    @property
    def history(self) -> History:
        """The pairs that were trained on."""

    @property
    def seen_by(self) -> SeenBy:
        """The rule for what a list leaves out; see ``contexts.SeenBy``."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Interactions to be predicted, in the index space of the training data.

    A held-out item that training never saw gets an index past the catalogue: no model can
    recommend it, and it still counts as missed. A held-out user that training never saw has
    no history to rank from and is left out, with its rows counted. A context of several fields
    that training never saw is known by its values, if training saw each of these.
    """

    users_T: NDArray[np.int64]
    """The indices of the users to evaluate."""
    indptr_T1: NDArray[np.int64]
    """The held-out items of the t-th user are ``items_E[indptr_T1[t] : indptr_T1[t + 1]]``."""
    items_E: NDArray[np.int64]
    """The held-out items of each user, ascending within a user."""
    unknown_users: int
    """The number of held-out users that training never saw."""
    unknown_user_rows: int
    """The number of rows of unknown users."""
    cold_items: int
    """The number of held-out items that training never saw."""
    cold_item_rows: int
    """The number of rows of items that training never saw."""
    unseen_XF: NDArray[np.int64] | None = None
    """The values of contexts that are new as a whole; the first of them has the first free
    index."""
    training_rows: int = 0
    """The number of rows that are training rows too: lists leave such items out, so they are
    missed."""

    @classmethod
    def of(cls, held_out: Interactions, train: Catalogue) -> HeldOut:
        """Translate held-out interactions into the indices of the training data or of a model."""
        user_of, unseen_XF = _contexts(held_out, train)
        item_of = train.items.index_of(held_out.items.values)
        cold = item_of < 0
        item_of[cold] = len(train.items) + np.arange(int(cold.sum()))
        users_E, items_E = user_of[held_out.users_E], item_of[held_out.items_E]
        known = users_E >= 0
        order = np.lexsort((items_E[known], users_E[known]))
        users_E, items_E_known = users_E[known][order], items_E[known][order]
        users_T, counts = np.unique(users_E, return_counts=True)
        if len(users_T) == 0:
            raise DataError(
                "no held-out user occurs in the training data, so nothing can be evaluated. "
                "Are both files from the same data set, with the same id columns? Users who are "
                "new can be measured if they are folded in from histories.",
                code="no_common_users",
            )
        return cls(
            users_T=users_T,
            indptr_T1=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            items_E=items_E_known,
            unknown_users=int((user_of < 0).sum()),
            unknown_user_rows=int((~known).sum()),
            cold_items=int(cold.sum()),
            cold_item_rows=int((items_E_known >= len(train.items)).sum()),
            unseen_XF=unseen_XF,
            training_rows=_rows_in(train.history, len(train.items), users_E, items_E_known),
        )

    def excluded(self, train: Catalogue, history: History | None = None) -> History:
        """Return the items that lists leave out, of the contexts of training, then of the new ones.

        It follows from what was trained on, or from another history of the same contexts.
        """
        known = train.history if history is None else history
        seen = excluded(known, train.fields, train.seen_by)
        if self.unseen_XF is None or train.fields is None:
            return seen
        new_X = train.fields.same_seen(self.unseen_XF, train.seen_by)
        return seen.rows(np.append(np.arange(seen.n_users), new_X))

    def __len__(self) -> int:
        """Return the number of users to evaluate."""
        return len(self.users_T)

    def sample(self, n: int, *, seed: int) -> HeldOut:
        """Return a fixed random choice of at most n users, for quick looks during training."""
        if n >= len(self):
            return self
        key_T = sort_keys(seed, Stream.VALID_SAMPLE, 0, self.users_T)
        return self.only(np.sort(np.argsort(key_T, kind="stable")[:n]))

    def only(self, chosen: NDArray[np.int64]) -> HeldOut:
        """Return the users at some places, with their rows."""
        counts = np.diff(self.indptr_T1)[chosen]
        rows = [np.arange(self.indptr_T1[t], self.indptr_T1[t + 1]) for t in chosen]
        items_E = self.items_E[np.concatenate(rows)] if rows else self.items_E[:0]
        return self._with(chosen, counts, items_E)

    def among(self, rows_E: NDArray[np.bool_]) -> tuple[HeldOut, NDArray[np.int64]]:
        """Return some of the rows, and the places of the users who have any of them."""
        before_E1 = np.concatenate(([0], np.cumsum(rows_E)))
        count_T = np.diff(before_E1[self.indptr_T1])
        places = np.flatnonzero(count_T)
        return self._with(places, count_T[places], self.items_E[rows_E]), places

    def _with(
        self, places: NDArray[np.int64], counts: NDArray[np.int64], items_E: NDArray[np.int64]
    ) -> HeldOut:
        """Return the users at some places, with as many of these items each."""
        indptr_T1 = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return replace(self, users_T=self.users_T[places], indptr_T1=indptr_T1, items_E=items_E)


def measured_users(held_out: Interactions, train: Catalogue) -> NDArray[Any]:
    """Return the ids of the users that ``HeldOut.of`` does not leave out, in its order."""
    return held_out.users.at(_measured(held_out, train))


def measured_columns(held_out: Interactions, train: Catalogue) -> dict[str, NDArray[Any]]:
    """Return the same as a column of users, or as a column for each field of contexts."""
    places, fields = _measured(held_out, train), held_out.fields
    if fields is None:
        return {"user": held_out.users.at(places)}
    named = zip(fields.names, fields.values, strict=True)
    return {name: ids.at(fields.index_UF[places, f]) for f, (name, ids) in enumerate(named)}


def _measured(held_out: Interactions, train: Catalogue) -> NDArray[np.int64]:
    with_rows = np.unique(held_out.users_E)
    user_of = _contexts(held_out, train)[0][with_rows]
    order = np.argsort(user_of, kind="stable")
    return with_rows[order[user_of[order] >= 0]]


def _rows_in(
    history: History, n_items: int, users_E: NDArray[np.int64], items_E: NDArray[np.int64]
) -> int:
    """Return the number of pairs that are pairs of the history."""
    can_be_E = (users_E < history.n_users) & (items_E < n_items)
    queried_T, at_E = np.unique(users_E[can_be_E], return_inverse=True)
    own = history.rows(queried_T)  # the history of all users may be larger than the RAM
    known = own.users_E * n_items + own.items_E  # ascends, as rows are in CSR order
    wanted = at_E * n_items + items_E[can_be_E]
    at = np.searchsorted(known, wanted).clip(max=max(len(known) - 1, 0))
    return int((known[at] == wanted).sum()) if len(known) else 0


def _contexts(
    held_out: Interactions, train: Catalogue
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the index of each context, -1 if unknown, and the values of the new ones."""
    theirs, mine = held_out.fields, train.fields
    if theirs is None or mine is None or theirs.names != mine.names:
        return train.users.index_of(held_out.users.values), None
    user_of, unseen_XF = mine.match(theirs)
    return user_of, unseen_XF if len(unseen_XF) else None
