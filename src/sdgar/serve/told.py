"""Lists in the making, and how they are told: from numbers of a model to what JSON holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sdgar.errors import UsageError
from sdgar.recommend.unknown import index_of
from sdgar.serve.catalogue import Blocked
from sdgar.serve.snapshot import Best, Snapshot
from sdgar.serve.variants import Variant, Variants

if TYPE_CHECKING:
    from sdgar.data.ids import Ids
    from sdgar.serve.store import Entry


@dataclass(frozen=True)
class Listed:
    """A list in the making."""

    items: list[int]
    """The numbers of the items, best first."""
    scores: list[float]
    """The scores of the items."""
    notes: tuple[tuple[str, ...], ...] | None = None
    """What the rules did to each."""


def told(
    snapshot: Snapshot,
    listed: Listed,
    because: list[list[dict[str, Any]]] | None,
    entries: dict[str, Entry] | None,
) -> list[dict[str, Any]]:
    """Return the entries of a list as JSON has them."""
    ids = snapshot.model.items.at(np.array(listed.items, np.int64)).tolist()
    cold_I = snapshot.model.cold_I
    items: list[dict[str, Any]] = []
    for place, (item, score) in enumerate(zip(ids, listed.scores, strict=True)):
        one: dict[str, Any] = {"item": item, "score": score, "rank": place + 1}
        if cold_I is not None and cold_I[listed.items[place]]:
            one["cold"] = True
        if entries is not None:
            one |= details(entries.get(str(item)))
        if because is not None:
            one["because"] = [
                reason | (details(entries.get(str(reason["item"]))) if entries is not None else {})
                for reason in because[place]
            ]
        if listed.notes is not None and listed.notes[place]:
            one["rules"] = list(listed.notes[place])
        items.append(one)
    return items


def details(entry: Entry | None) -> dict[str, Any]:
    """Return the name, picture and categories of an entry of the store."""
    if entry is None:
        return {"name": None, "picture": None, "categories": []}
    return {"name": entry.name, "picture": entry.picture, "categories": list(entry.categories)}


def own_ids(ids: Ids, raw: Sequence[str]) -> list[Any]:
    """Return ids as the model has them, and as they are where it does not know them."""
    index_T = ids.index_of(raw)
    own = ids.at(index_T.clip(min=0)).tolist() if len(ids) else list(raw)
    return [o if at >= 0 else r for o, r, at in zip(own, raw, index_T, strict=True)]


def by_variant(
    variants: Variants, users: Iterable[Any], wanted: str | None
) -> dict[str, list[Any]]:
    """Return the users of each variant that has some."""
    groups: dict[str, list[Any]] = {}
    for user in users:
        groups.setdefault(variants.of(str(user), wanted).name, []).append(user)
    return groups


def in_order(lists: Sequence[dict[str, Any]], users: Sequence[Any]) -> list[dict[str, Any]]:
    """Return lists in the order in which users were asked for; one asked for twice has two."""
    waiting: dict[str, list[dict[str, Any]]] = {}
    for one in lists:
        waiting.setdefault(str(one["user"]), []).append(one)
    return [waiting[str(user)].pop(0) for user in users]


def own_id(variant: Variant, user: Any, at: int) -> Any:
    """Name a user as the model does, or as the request does if the model does not know the user."""
    return variant.snapshot.model.users.at(np.array([at])).tolist()[0] if at >= 0 else user


def ids_of(snapshot: Snapshot, numbers: Sequence[int]) -> list[str]:
    """Return the ids of some items as text, which is how the store has them."""
    return [str(item) for item in snapshot.model.items.at(np.array(numbers, np.int64)).tolist()]


def numbers_of(snapshot: Snapshot, ids: Sequence[Any]) -> list[int]:
    """Return the numbers of those items that the model knows."""
    if not ids:
        return []
    index_T = snapshot.model.items.index_of(ids)
    numbers: list[int] = index_T[index_T >= 0].tolist()
    return numbers


def unknown_of(snapshot: Snapshot, ids: Sequence[Any]) -> list[Any]:
    """Return those ids of items that the model does not know."""
    if not ids:
        return []
    index_T = snapshot.model.items.index_of(ids)
    return [one for one, at in zip(ids, index_T, strict=True) if at < 0]


def required(snapshot: Snapshot, ids: Sequence[Any]) -> list[int]:
    """Return the numbers of items that the model must know."""
    numbers: list[int] = index_of(snapshot.model.items, list(ids), "item", "error").tolist()
    return numbers


def nothing_known() -> UsageError:
    """Build the error for reasons that are asked for someone of whom nothing is known."""
    return UsageError(
        "the model knows nothing of this user, so it has no reasons. Give a history.",
        code="unknown_user",
    )


def without(best: Best, out: frozenset[int], most: int) -> Listed:
    """Return the first of the best that are not to be left out."""
    pairs = zip(best.items_K.tolist(), best.scores_K.tolist(), strict=True)
    kept = [(item, score) for item, score in pairs if item not in out] if out else list(pairs)
    return Listed([item for item, _ in kept[:most]], [score for _, score in kept[:most]])


def popular_of(snapshot: Snapshot, depth: int, blocked: Blocked) -> Best:
    """Return the most popular items that may be listed."""
    order_I = snapshot.popular_I
    if blocked.blocked_I is not None:
        order_I = order_I[~blocked.blocked_I[order_I]]
    order_K = order_I[:depth]
    return Best(order_K, snapshot.model.popularity_I[order_K])
