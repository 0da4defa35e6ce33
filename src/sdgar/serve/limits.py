"""Bounds on what any client can cost: bytes, seconds, requests at once and requests a minute.

They are one layer in front of the application, which looks at no path but those of health: whatever
a request asks for, it has passed here.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from sdgar.serve.problems import Refused, problem

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HEALTH = ("/livez", "/readyz")
"""The paths that are answered however busy the server is."""
_MOST_CLIENTS = 10_000
"""How many clients are remembered for the rate; those who were not heard of longest are forgotten
first."""


@dataclass(frozen=True)
class Limits:
    """The bounds of a server."""

    body_bytes: int = 1 << 20
    """The most bytes of a body."""
    body_seconds: float = 10.0
    """The longest that a body may take to arrive."""
    answer_seconds: float = 30.0
    """The longest that an answer may take."""
    at_once: int = 256
    """The most requests that are worked on or wait; any more are turned away."""
    per_minute: int = 0
    """The most requests of a client in a minute, by its key or address; 0 means any number."""


class Limited:
    """An application behind bounds."""

    def __init__(
        self, app: Any, limits: Limits, client_of: Callable[[Any], str], running: list[int]
    ) -> None:
        self._app, self._limits, self._client_of = app, limits, client_of
        self._rates = Rates(limits.per_minute)
        self._running = running
        """How many requests are worked on, as a list of one number that others may read."""

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request, or turn it away."""
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        try:
            self._let_in(scope)
        except Refused as refused:
            await problem(refused)(scope, receive, send)
            return
        self._running[0] += 1
        try:
            await self._answered(scope, receive, send)
        finally:
            self._running[0] -= 1

    def _let_in(self, scope: Any) -> None:
        if self._running[0] >= self._limits.at_once:
            raise Refused(503, "The server is busy. Ask again soon.", retry_after=1)
        wait = self._rates.wait(self._client_of(scope))
        if wait > 0:
            most = self._limits.per_minute
            raise Refused(429, f"A client may ask {most} times a minute.", retry_after=wait)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            raise self._too_large()

    def _too_large(self) -> Refused:
        most = self._limits.body_bytes
        return Refused(413, f"A body may have {most:,} bytes. Ask in several requests.")

    async def _answered(self, scope: Any, receive: Receive, send: Send) -> None:
        began = False

        async def sent(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await send(message)

        try:
            body = await self._body(receive)
            if body is None:  # the client has gone
                return
            async with asyncio.timeout(self._limits.answer_seconds):
                await self._app(scope, _given(body, receive), sent)
        except Refused as refused:
            await problem(refused)(scope, receive, send)
        except TimeoutError:
            if not began:
                late = Refused(504, f"No answer within {self._limits.answer_seconds:g} s.")
                await problem(late)(scope, receive, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """Read the whole body within its bounds; None if the client has gone."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._limits.body_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            slow = f"The body did not arrive within {self._limits.body_seconds:g} s."
            raise Refused(408, slow) from None


def _given(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already, and then whatever comes."""
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class Rates:
    """A bucket of requests for each client, which fills up again evenly within a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = per_minute, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Take one request out of a bucket, or say how many seconds are to be waited for it."""
        if not self._most:
            return 0.0
        now = self._clock()
        left, when = self._left.pop(client, (float(self._most), now))
        left = min(self._most, left + (now - when) * self._most / 60)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        while len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self._most
