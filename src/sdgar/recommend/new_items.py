"""New items of a saved model: by their events, by their features, or by both."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.features import Features
from sdgar.data.history import History
from sdgar.data.ids import Ids, common_kind, held, is_column
from sdgar.data.interactions import Interactions
from sdgar.data.read_options import USER
from sdgar.errors import ArtifactError, DataError, SdgarWarning, UsageError
from sdgar.models.fold_in import GREATEST, VectorRule
from sdgar.models.model import Growth
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.cold import predicted
from sdgar.recommend.inputs import find

if TYPE_CHECKING:
    from sdgar.maths.neighbours import Neighbourhoods

Events = Interactions | Mapping[Any, Iterable[Any]]
"""The events of new items: rows, or the users of each item."""
ABOUT = "new_items"
"""The entry in ``about`` of a model with new items."""


def grown(
    saved: Artifact, events: Events | None, features: Features | None, *, skip_unknown: bool
) -> Artifact:
    """Return a model that includes new items; see ``Recommender.add_items``."""
    if events is None and features is None:
        raise UsageError(
            "there is nothing to add: pass events of new items, features, or both.",
            code="no_items",
        )
    if tuple(saved.about.get("context", USER)) != USER:
        raise UsageError(
            "new items cannot be added to a model whose contexts have several fields. Train again "
            "with their rows.",
            code="no_new_items",
        )
    if not saved.model.grows:
        raise UsageError(
            f"new items cannot be added to a model of system {saved.about.get('system')!r}: it has "
            "no rule for an item that it was not trained on. Use a model of vectors with a rule "
            "(ials, quick, sdsoftmax with similarity=cosine), local-ease or popular, or train "
            "again with the new items' rows.",
            code="no_new_items",
        )
    rows = None if events is None else _rows_of(saved, events, skip_unknown=skip_unknown)
    if features is not None and saved.about.get("folded_in"):
        raise UsageError(
            "this model has users folded in, and no longer the histories of training, which "
            "features need. Add the items to the model that was saved after training.",
            code="folded_in",
        )
    if features is not None:
        of_kind("features", features, Features, "Read a table with sdgar.read_features(path).")
        saved = _with_cold(saved, features)
    return saved if rows is None else _with_events(saved, rows)


def _rows_of(saved: Artifact, events: Events, *, skip_unknown: bool) -> Interactions:
    """Return the rows of new items by known users."""
    rows = events if isinstance(events, Interactions) else _listed(events)
    if rows.weight_E is not None:
        warnings.warn(
            "add_items does not use the weights of rows: every user of an item counts alike.",
            SdgarWarning,
            stacklevel=4,
        )
    known_I = saved.items.index_of(rows.items.values)
    warm = known_I >= 0
    if saved.cold is not None:
        warm &= ~saved.cold[known_I]
    if warm.any():
        raise UsageError(
            f"{int(warm.sum()):,} items are in the model already, with events: "
            f"{rows.items.values[warm][:3].tolist()!r}. Pass events of new items alone, or train "
            "again with all rows.",
            code="known_items",
        )
    fallback = "skip" if skip_unknown else "error"
    at_U = find(saved.users, rows.users.values.tolist(), "user", fallback)
    kept_E = (at_U >= 0)[rows.users_E]
    bare = np.bincount(rows.items_E[kept_E], minlength=rows.n_items) == 0
    if bare.any():
        raise UsageError(
            f"{int(bare.sum()):,} new items have no event of a user of the model: "
            f"{rows.items.values[bare][:3].tolist()!r}. Leave them out, or pass their features.",
            code="empty_item",
        )
    return rows.subset(kept_E, "unknown_users") if not kept_E.all() else rows


def _listed(events: Any) -> Interactions:
    """Return one row for every user of every new item."""
    if not isinstance(events, Mapping) or not all(is_column(users) for users in events.values()):
        raise UsageError(
            "events of new items are sdgar.read(file), or lists of users by item, such as "
            f"{{'new item': ['ann', 'bob']}}; got {events!r:.60}.",
            code="bad_events",
        )
    lists = {item: list(users) for item, users in events.items()}
    bare = [item for item, users in lists.items() if not users]
    if bare or not lists:
        raise UsageError(
            f"{len(bare):,} new items have no event, the first are {bare[:3]!r}. Leave them out, "
            "or pass their features.",
            code="empty_item",
        )
    users = [user for users in lists.values() for user in users]
    items = [item for item, users in lists.items() for _ in users]
    return Interactions.from_arrays(users, items, duplicates="last")


def _with_cold(saved: Artifact, features: Features) -> Artifact:
    """Return the model with all items of the features; new ones are cold."""
    new = features.ids.values[saved.items.index_of(features.ids.values) < 0]
    if not len(new):
        return saved
    more, place_I = _united(saved, new)
    cold_J = np.ones(len(more.items), bool)
    cold_J[place_I] = False if saved.cold is None else saved.cold
    about = {"cold": int(cold_J.sum())}
    model = more.model
    factors = model.factors()
    if factors is not None and factors.dim:
        v_ND, b_N, chosen = predicted(model, more.history, more.items, ~cold_J, features)
        model = model.with_vectors(
            np.flatnonzero(cold_J), v_ND.astype(np.float32), b_N.astype(np.float32)
        )
        about |= chosen
    elif factors is None:
        raise UsageError(
            f"a model of system {saved.about.get('system')!r} has no vectors that features could "
            "predict. Add items by their events, or use ials, quick or sdsoftmax.",
            code="no_vectors",
        )
    return replace(more, model=model, cold=cold_J, about={**more.about, ABOUT: about})


def _with_events(saved: Artifact, rows: Interactions) -> Artifact:
    """Return the model with the items of some rows, by their vectors and weights."""
    new = rows.items.values[saved.items.index_of(rows.items.values) < 0]
    before = saved.history
    more, _ = _united(saved, new)
    n_items = len(more.items)
    user_E = more.users.index_of(rows.users.values)[rows.users_E]
    item_E = more.items.index_of(rows.items.values)[rows.items_E]
    history = more.history.union(History.of_pairs(user_E, item_E, len(more.users)))
    at_N, own_E = np.unique(item_E, return_inverse=True)
    of_item = History.of_pairs(own_E, user_E, len(at_N))
    length_N = np.diff(of_item.indptr_U1)
    model, about = more.model, dict(more.about.get(ABOUT, {}))
    factors = model.factors()
    if factors is not None:
        rule = cast("VectorRule", factors.rule)
        v_ND, b_N = rule.items(factors, of_item, np.diff(before.indptr_U1))
        if more.cold is not None and factors.dim:
            worth_N = np.float32(_kappa(about)) * more.cold[at_N].astype(np.float32)
            share_N = (length_N / (length_N + worth_N)).astype(np.float32)
            v_ND = share_N[:, None] * v_ND + (1 - share_N)[:, None] * factors.item_ID[at_N]
            b_N = share_N * b_N + (1 - share_N) * factors.bias_I[at_N]
        model = model.with_vectors(at_N, v_ND, b_N)
    added_J = np.zeros(n_items, np.int64)
    added_J[at_N] = length_N
    model = model.with_items(Growth(np.arange(n_items), history, n_items, added_J))
    if any(part.compares_by == "weights" for part in model.parts()):
        model = model.with_new_weights(_neighbourhoods(more.about, n_items), at_N)
    cold = more.cold
    if cold is not None:
        cold = cold.copy()
        cold[at_N] = False
        about["cold"] = int(cold.sum())
    about["by_events"] = about.get("by_events", 0) + len(at_N)
    return replace(
        more, model=model, history=history, cold=cold, about={**more.about, ABOUT: about}
    )


def _united(saved: Artifact, new: NDArray[Any]) -> tuple[Artifact, NDArray[np.int64]]:
    """Return the model with new ids that have no scores yet, and where its items are now."""
    own = saved.items
    items = Ids(np.unique(np.concatenate(common_kind(own.values, _spelt_as(own, new)))))
    place_I = items.index_of(own.values)
    history = _placed(saved.history, place_I)
    model = saved.model.with_items(Growth(place_I, history, len(items)))
    cold_J = None
    if saved.cold is not None:
        cold_J = np.zeros(len(items), bool)
        cold_J[place_I] = saved.cold
    seen = None if saved.seen is None else _placed(saved.seen, place_I)
    more = replace(
        saved, model=model, items=items, history=history, seen=seen, cold=cold_J, version=""
    )
    return more, place_I


def _spelt_as(own: Ids, new: NDArray[Any]) -> NDArray[Any]:
    """Return new ids in the type of the model's: an integer and its plain spelling are the same."""
    if own.kind == "text":
        return np.array([*map(str, new.tolist()), None], dtype=object)[:-1]
    if new.dtype.kind in "iu":
        return new
    odd = [one for one in new.tolist() if not one.lstrip("-").isdecimal() or str(int(one)) != one]
    if odd:
        raise DataError(
            f"item ids of this model are {own.kind}, such as {own.values[:3].tolist()!r}, and new "
            f"items have ids such as {odd[:3]!r}. Use one type for both.",
            code="schema_mismatch",
        )
    return held([int(one) for one in new.tolist()])


def _placed(history: History, place_I: NDArray[np.int64]) -> History:
    return History(history.indptr_U1, place_I[history.items_E].astype(np.int32))


def _kappa(about: Mapping[str, Any]) -> float:
    kappa = about.get("kappa")
    if not isinstance(kappa, int | float) or not 0 <= kappa <= GREATEST:
        raise ArtifactError(
            f"the model is damaged: {ABOUT}.kappa is {kappa!r:.40}. Restore the folder from a "
            "copy, or add the items again.",
            code="damaged",
        )
    return float(kappa)


def _neighbourhoods(about: Mapping[str, Any], n_items: int) -> Neighbourhoods:
    """Return the settings by which the item-item weights of a model were computed."""
    from sdgar.maths.neighbours import Neighbourhoods

    given, decided = about.get("hyper_parameters"), about.get("decided")
    settings = dict(given) if isinstance(given, dict) else {}
    settings |= decided if isinstance(decided, dict) else {}
    match about.get("system"), settings:
        case "local-ease", {
            "neighbours": int() as k, "l2": int() | float() as l2,
            "shrink": int() | float() as shrink, "beta": int() | float() as beta,
        } if k > 0 and min(l2, shrink, beta) >= 0:  # fmt: skip
            k = min(k, max(1, n_items - 1))
            return Neighbourhoods(k=k, l2=float(l2), shrink=float(shrink), beta=float(beta))
        case _, {
            "item_memory__neighbours": int() as k, "item_memory__l2": int() | float() as l2,
        } if k > 0 and l2 >= 0:  # fmt: skip
            return Neighbourhoods.for_item_memory(n_items, neighbours=k, l2=float(l2))
    raise UsageError(
        f"new items cannot be added to this model of system {about.get('system')!r}, as the "
        "settings of its item-item weights are not saved. Add them to the models that it was made "
        "of, or train again.",
        code="no_new_items",
    )
