"""Impressions (ranked lists that were shown), and the conversions of each variant."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, and_, func, select

from sdgar.serve.store.connections import Transactions
from sdgar.serve.store.records import (
    MICROSECONDS,
    Impression,
    Rate,
    checked_id,
    checked_text,
    finite_number,
    searchable,
    to_microseconds,
)
from sdgar.serve.store.schema import EVENTS, IMPRESSIONS


class ImpressionTable(Transactions):
    """The impressions of a store."""

    def add_impressions(self, impressions: Iterable[Impression]) -> None:
        """Store impressions, all or none."""
        rows = [_row(one) for one in impressions]
        if rows:
            with self._writing() as connection:
                connection.execute(IMPRESSIONS.insert(), rows)

    def count_impressions(self) -> int:
        """Return the number of impressions."""
        with self._reading() as connection:
            wanted = select(func.count()).select_from(IMPRESSIONS)
            return int(connection.execute(wanted).scalar_one())

    def rates(self, kind: str, window: float, *, since: float | None = None) -> dict[str, Rate]:
        """Return the conversions of each variant: how many users, requests and lists.

        A list counts as followed if, at most ``window`` seconds after it was shown, an event of
        this kind names its request, or belongs to its user and one of its items. ``since`` leaves
        out lists that were shown earlier.
        """
        shown = IMPRESSIONS.c
        start = 0 if since is None else to_microseconds(since, "time")
        length = round(finite_number(window, "window") * MICROSECONDS)
        counted = (
            select(
                shown.variant,
                func.count(shown.user_id.distinct()),
                func.count(shown.request.distinct()),
                func.count(),
            )
            .where(shown.time >= start)
            .group_by(shown.variant)
            .order_by(shown.variant)
        )
        in_time = and_(
            EVENTS.c.kind == searchable(kind),
            shown.time >= start,
            EVENTS.c.time <= shown.time + length,
        )
        by_user = and_(EVENTS.c.user_id == shown.user_id, EVENTS.c.time >= shown.time, in_time)
        by_request = and_(EVENTS.c.request == shown.request, in_time)
        followed: dict[str, _Followed] = {}
        with self._reading() as connection:
            totals = connection.execute(counted).all()
            for row in connection.execute(_pairs(by_user)):
                if row.item_id in json.loads(row.items_shown):
                    followed.setdefault(row.variant, _Followed()).add(row)
            for row in connection.execute(_pairs(by_request)):
                if row.user_id is None or row.user_id == row.event_user:
                    followed.setdefault(row.variant, _Followed()).add(row)
        return {
            variant: followed.get(variant, _Followed()).of(int(users), int(requests), int(lists))
            for variant, users, requests, lists in totals
        }


class _Followed:
    """The followed users, requests and lists, each counted once."""

    def __init__(self) -> None:
        self._users: set[str] = set()
        self._requests: set[str] = set()
        self._lists: set[int] = set()

    def add(self, row: Any) -> None:
        if row.user_id is not None:
            self._users.add(row.user_id)
        self._requests.add(row.request)
        self._lists.add(row.number)

    def of(self, users: int, requests: int, lists: int) -> Rate:
        return Rate(
            users=users,
            converted_users=len(self._users),
            requests=requests,
            converted_requests=len(self._requests),
            impressions=lists,
            converted_impressions=len(self._lists),
        )


def _pairs(condition: Any) -> Select[Any]:
    """Return a query for pairs of an impression and an event that meet a condition."""
    shown = IMPRESSIONS.c
    columns = (
        shown.number,
        shown.variant,
        shown.user_id,
        shown.request,
        shown["items"].label("items_shown"),
        EVENTS.c.item_id,
        EVENTS.c.user_id.label("event_user"),
    )
    return select(*columns).join(EVENTS, condition).execution_options(yield_per=1000)


def _row(one: Impression) -> dict[str, Any]:
    items = [checked_id(item, "item id of an impression") for item in one.items]
    return {
        "request": checked_text(one.request, "request of an impression"),
        "time": to_microseconds(one.time, "time of an impression"),
        "user_id": None if one.user is None else checked_id(one.user, "user id of an impression"),
        "items": json.dumps(items, ensure_ascii=False),
        "model": checked_text(one.model, "model of an impression"),
        "variant": checked_text(one.variant, "variant of an impression"),
        "basis": checked_text(one.basis, "basis of an impression"),
    }
