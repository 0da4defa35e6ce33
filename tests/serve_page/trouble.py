"""A server of the page that can be slow or fail, and that remembers what it was sent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from sdgar.serve.problems import Refused, problem
from sdgar.serve.settings import ServerSettings

from ..serve.conftest import Live


class TroubledServer(Live):
    """A server on loopback whose answers can be delayed or replaced by errors, by their path."""

    def __init__(self, folder: Path, store: str | None, *, delay: float = 0.0) -> None:
        self.delay = delay
        self.delays: dict[str, list[float]] = {}
        """The delays of the next requests to a path, in order."""
        self.faults: dict[str, Refused] = {}
        """The paths that fail, until they are taken out."""
        self.requests: list[tuple[str, Any]] = []
        """The path and body of every request to the API."""
        models = {"main": (str(folder), 1.0)}
        super().__init__(ServerSettings(models=models, store=store, port=0, drain=0.0))

    def wrapped(self, app: Any) -> Any:
        async def troubled(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
                await app(scope, receive, send)
                return
            path, body, more = scope["path"].removeprefix("/v1/"), b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
            self.requests.append((path, json.loads(body) if body else None))
            waits = self.delays.get(path)
            await asyncio.sleep(waits.pop(0) if waits else self.delay)
            sent = iter([{"type": "http.request", "body": body, "more_body": False}])

            async def replay() -> Any:
                return next(sent, None) or await receive()

            answer = problem(self.faults[path]) if path in self.faults else app
            await answer(scope, replay, send)

        return troubled

    def bodies(self, path: str) -> list[Any]:
        return [body for where, body in self.requests if where == path]
