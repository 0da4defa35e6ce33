"""Lists that were shown, and how often each variant's lists were followed by an event."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, and_, func, select

from sdgar.serve.store import texts
from sdgar.serve.store.records import Impression, Rate
from sdgar.serve.store.tables import EVENTS, IMPRESSIONS
from sdgar.serve.store.transactions import Transactions


class Impressions(Transactions):
    """The part of a store that holds what was shown to whom."""

    def add_impressions(self, impressions: Iterable[Impression]) -> None:
        """Store lists that were shown, all or none."""
        rows = [_row(one) for one in impressions]
        if rows:
            with self._writing() as connection:
                connection.execute(IMPRESSIONS.insert(), rows)

    def count_impressions(self) -> int:
        """Count the lists that were shown."""
        with self._reading() as connection:
            wanted = select(func.count()).select_from(IMPRESSIONS)
            return int(connection.execute(wanted).scalar_one())

    def rates(self, kind: str, window: float, *, since: float | None = None) -> dict[str, Rate]:
        """Return for each variant how many users, requests and lists were followed.

        A list is followed by an event of this kind that names its request, or that its user has
        with one of its items; in both cases not later than ``window`` seconds after it was shown.
        ``since`` leaves out lists that were shown before a time.
        """
        shown = IMPRESSIONS.c
        start = 0 if since is None else texts.microseconds(since, "time")
        length = round(texts.a_number(window, "window") * texts.MICROSECONDS)
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
            EVENTS.c.kind == texts.sought(kind),
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
    """What was followed, each once."""

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
    """Return the question for lists and events that meet a condition."""
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
    items = [texts.an_id(item, "item id of an impression") for item in one.items]
    return {
        "request": texts.a_text(one.request, "request of an impression"),
        "time": texts.microseconds(one.time, "time of an impression"),
        "user_id": None if one.user is None else texts.an_id(one.user, "user id of an impression"),
        "items": json.dumps(items, ensure_ascii=False),
        "model": texts.a_text(one.model, "model of an impression"),
        "variant": texts.a_text(one.variant, "variant of an impression"),
        "basis": texts.a_text(one.basis, "basis of an impression"),
    }
