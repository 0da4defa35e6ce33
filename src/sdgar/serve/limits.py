"""Limits on the cost of a client: bytes, seconds, headers, connections and requests per minute.

``LimitedApp`` is one layer in front of the application. It applies to every path except health
checks. Headers are limited before that, by ``BoundedHttpProtocol``.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sdgar.serve.problems import Refused, problem
from sdgar.serve.routes.common import ServerState

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HEALTH_PATHS = ("/livez", "/readyz")
"""The paths that are answered however busy the server is."""
HEADER_SECONDS = 5.0
"""The maximum time for the headers of a request to arrive, from their first byte."""
HEADER_BYTES = 32 << 10
"""The maximum size of the request line and the headers of a request."""
_MOST_CLIENTS = 10_000
"""The number of clients whose rate is remembered; the least recently seen are dropped first."""
_HEADERS_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class LimitedApp:
    """An application behind limits."""

    def __init__(self, app: Any, state: ServerState) -> None:
        self._app, self._state, self._limits = app, state, state.limits
        self._rates = RateLimiter(state.limits.per_minute)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            self._admit(scope)
        except Refused as refused:
            await problem(refused)(scope, receive, send)
            return
        self._state.running += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._state.running -= 1

    def _admit(self, scope: Any) -> None:
        """Raise if the server is busy, the client is over its rate, or the body is too large."""
        if self._state.running >= self._limits.at_once:
            raise Refused(503, "The server is busy. Try again soon.", retry_after=1)
        wait = self._rates.wait(self._state.access.client(scope))
        if wait > 0:
            most = self._limits.per_minute
            raise Refused(429, f"A client may send {most} requests a minute.", retry_after=wait)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            raise self._too_large()

    def _too_large(self) -> Refused:
        most = self._limits.body_bytes
        return Refused(413, f"A body may have {most:,} bytes. Send several requests.")

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            body = await self._body(receive)
            if body is None:  # the client has gone
                return
            async with asyncio.timeout(self._limits.answer_seconds):
                await self._app(scope, _replayed(body, receive), send_and_note)
        except Refused as refused:
            await problem(refused)(scope, receive, send)
        except TimeoutError:
            if not started:
                late = Refused(504, f"No answer within {self._limits.answer_seconds:g} s.")
                await problem(late)(scope, receive, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """Read the whole body within its limits; return None if the client has gone."""
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


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that yields a body that was read already, and then new messages."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


class RateLimiter:
    """A token bucket for each client, which refills evenly within a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = per_minute, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Take one token; return 0, or the seconds until the client has one."""
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


class BoundedHttpProtocol(HttpToolsProtocol):
    """An HTTP connection of uvicorn whose headers have limits in time and size.

    uvicorn limits how long an idle connection is kept, but neither how long headers may take nor
    how long they may be. Its parser calls ``on_…`` where the parts of a request begin and end.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_headers, self._header_bytes = True, 0

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first headers."""
        super().connection_made(transport)
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers, and parse all bytes."""
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES and b"\r\n\r\n" not in data[:HEADER_BYTES]:
                self.transport.write(_HEADERS_TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Start the time limit of the headers."""
        self._in_headers = True
        if self._deadline is None:
            self._start_deadline()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the time limit: bodies have their own."""
        self._stop_deadline()
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Reset the count for the next request of the connection."""
        self._in_headers, self._header_bytes = True, 0
        super().on_message_complete()

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._hang_up)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
