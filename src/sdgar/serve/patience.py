"""Connections that must make progress: a client that sends its headers slowly is hung up on.

uvicorn bounds how long an idle connection is kept, but neither how long headers may take nor how
long they may be. Here both are bounded.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 5.0
"""The longest that the headers of a request may take to arrive, from the first byte on."""
HEADER_BYTES = 32 << 10
"""The most bytes of the first line and the headers of a request."""
_TOO_LARGE = b"\r\n".join(
    (
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"connection: close",
        b"content-length: 0",
        b"",
        b"",
    )
)


class Patience(HttpToolsProtocol):
    """HTTP by httptools, with bounds on headers."""

    _deadline: asyncio.TimerHandle | None = None
    _in_headers = True
    _header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the first headers."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for headers."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers, and pass everything on."""
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES and b"\r\n\r\n" not in data[:HEADER_BYTES]:
                self.transport.write(_TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to wait for headers."""
        super().on_message_begin()
        self._in_headers = True
        if self._deadline is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Wait no longer: the body has bounds of its own."""
        self._stop()
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Count anew for the next request of the connection."""
        super().on_message_complete()
        self._in_headers, self._header_bytes = True, 0

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._hang_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
