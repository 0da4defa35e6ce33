"""Bodies that are JSON and nothing else: no NaN, no lone surrogates, no endless depth."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute

from sdgar.serve.problems import Refused


class StrictRequest(Request):
    """A request whose body is read by a strict parser."""

    async def json(self) -> Any:
        """Return the body, or say that it is no JSON."""
        if not hasattr(self, "_json"):
            self._json = parsed(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route that takes JSON only."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, behind the strict parser."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            if request.method in ("POST", "PUT"):
                require_json(dict(request.scope["headers"]))
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def require_json(headers: dict[bytes, bytes]) -> None:
    """Refuse a body that does not say that it is JSON, or that is compressed."""
    kind = headers.get(b"content-type", b"application/json").partition(b";")[0]
    if kind.strip().lower() != b"application/json":
        raise Refused(415, "Send JSON, with the header Content-Type: application/json.")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise Refused(415, "Send the body as it is, without a Content-Encoding.")


def parsed(body: bytes) -> Any:
    """Parse a body; one that is nested more than a thousand times is no JSON of ours."""
    return orjson.loads(body)
