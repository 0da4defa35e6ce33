"""Impressions (ranked lists that were shown), and the conversions of each variant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, and_, func, select

from sdgar.serve.store.connections import Transactions
from sdgar.serve.store.records import Impression, Rate
from sdgar.serve.store.schema import (
    EVENTS,
    IDS,
    IMPRESSIONS,
    MICROSECONDS,
    searchable,
    to_microseconds,
    to_row,
)


class ImpressionTable(Transactions):
    """The impressions of a store."""

    def add_impressions(self, impressions: Iterable[Impression]) -> None:
        """Store impressions, all or none."""
        rows = [to_row(IMPRESSIONS, one, "an impression") for one in impressions]
        if rows:
            with self._writing() as connection:
                connection.execute(IMPRESSIONS.insert(), rows)

    def rates(self, kind: str, window: float, *, since: float | None = None) -> dict[str, Rate]:
        """Return the conversions of each variant: how many users, requests and lists.

        A list counts as followed if, at most ``window`` seconds after it was shown, an event of
        this kind names its request, or belongs to its user and one of its items. ``since`` leaves
        out lists that were shown earlier.
        """
        shown = IMPRESSIONS.c
        start = 0 if since is None else to_microseconds(since, "time")
        length = round(window * MICROSECONDS)
        counted = (
            select(
                shown.variant,
                func.count(shown.user.distinct()),
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
        by_user = and_(EVENTS.c.user == shown.user, EVENTS.c.time >= shown.time, in_time)
        by_request = and_(EVENTS.c.request == shown.request, in_time)
        followed: dict[str, tuple[set[Any], set[Any], set[Any]]] = {}

        def add(row: Any) -> None:
            users, requests, lists = followed.setdefault(row.variant, (set(), set(), set()))
            users |= {row.user} - {None}
            requests.add(row.request)
            lists.add(row.number)

        with self._reading() as connection:
            totals = connection.execute(counted).all()
            for row in connection.execute(_pairs(by_user)):
                if row.item in IDS.read(row.items_shown):
                    add(row)
            for row in connection.execute(_pairs(by_request)):
                if row.user is None or row.user == row.event_user:
                    add(row)
        rates: dict[str, Rate] = {}
        for variant, *counts in totals:
            converted = map(len, followed.get(variant, (set(), set(), set())))
            pairs = zip(map(int, counts), converted, strict=True)
            rates[variant] = Rate(*(number for pair in pairs for number in pair))
        return rates


def _pairs(condition: Any) -> Select[Any]:
    """Return a query for pairs of an impression and an event that meet a condition."""
    shown = IMPRESSIONS.c
    columns = (
        shown.number,
        shown.variant,
        shown.user.label("user"),
        shown.request,
        shown["items"].label("items_shown"),
        EVENTS.c.item.label("item"),
        EVENTS.c.user.label("event_user"),
    )
    return select(*columns).join(EVENTS, condition).execution_options(yield_per=1000)
