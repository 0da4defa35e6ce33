"""Impressions (ranked lists that were shown), and the conversions of each variant."""

from __future__ import annotations

import math
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

_Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


class ImpressionTable(Transactions):
    """The impressions of a store."""

    def add_impressions(self, impressions: Iterable[Impression]) -> None:
        """Store impressions, all or none."""
        rows = [to_row(IMPRESSIONS, one, "an impression") for one in impressions]
        if rows:
            with self._writing() as connection:
                connection.execute(IMPRESSIONS.insert(), rows)

    def rates(self, kind: str, window: float, *, since: float | None = None) -> dict[str, Rate]:
        """Return the conversions of each variant: how many users and requests.

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
        followed: dict[str, tuple[set[Any], set[Any]]] = {}

        def add(row: Any) -> None:
            users, requests = followed.setdefault(row.variant, (set(), set()))
            users |= {row.user} - {None}
            requests.add(row.request)

        with self._reading() as connection:
            totals = connection.execute(counted).all()
            for row in connection.execute(_pairs(by_user)):
                if row.item in IDS.read(row.items_shown):
                    add(row)
            for row in connection.execute(_pairs(by_request)):
                if row.user is None or row.user == row.event_user:
                    add(row)
        rates: dict[str, Rate] = {}
        for variant, users, requests in totals:
            by_users, by_requests = map(len, followed.get(variant, ((), ())))
            rates[variant] = Rate(users, by_users, requests, by_requests)
        return rates


def _pairs(condition: Any) -> Select[Any]:
    """Return a query for pairs of an impression and an event that meet a condition."""
    shown = IMPRESSIONS.c
    columns = (
        shown.variant,
        shown.user.label("user"),
        shown.request,
        shown["items"].label("items_shown"),
        EVENTS.c.item.label("item"),
        EVENTS.c.user.label("event_user"),
    )
    return select(*columns).join(EVENTS, condition).execution_options(yield_per=1000)


def wilson(successes: int, n: int, z: float = _Z) -> tuple[float, float]:
    """Return (p + z²/2n ± z √(p (1 - p) / n + z²/4n²)) / (1 + z²/n), p = successes / n.

    >>> low, high = wilson(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def newcombe(a: tuple[int, int], b: tuple[int, int]) -> tuple[float, float]:
    """Return the interval of p_a - p_b from the Wilson intervals of both (Newcombe 1998).

    >>> low, high = newcombe((56, 70), (48, 80))
    >>> round(low, 4), round(high, 4)
    (0.0524, 0.3339)
    """
    p_a, p_b = (s / n if n else 0.5 for s, n in (a, b))
    (low_a, high_a), (low_b, high_b) = wilson(*a), wilson(*b)
    low = p_a - p_b - math.hypot(p_a - low_a, high_b - p_b)
    high = p_a - p_b + math.hypot(high_a - p_a, p_b - low_b)
    return low, high
