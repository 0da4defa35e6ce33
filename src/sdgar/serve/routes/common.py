"""What the routes have in common: their kind, the answers of errors, and JSON as bytes."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.responses import Response

from sdgar.serve.problems import MEDIA_TYPE
from sdgar.serve.schemas import Problem
from sdgar.serve.state import needs
from sdgar.serve.strict import StrictRoute

_PROBLEMS = {
    400: "The body is no JSON.", 401: "There is no valid key.", 403: "The key may not do this.",
    404: "Something that the request names is not here.",
    409: "The model or the store cannot do this.", 413: "The body is too large.",
    415: "The body is not said to be JSON.", 422: "The request does not fit the schema.",
    429: "The client asks too often.", 503: "The server is busy, or about to end.",
    504: "The answer took too long.",
}  # fmt: skip


def router(*, role: str, tags: list[str]) -> APIRouter:
    """Return an empty router whose routes all need a key of this role."""
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": problem} for status, text in _PROBLEMS.items()
    }
    return APIRouter(
        prefix="/v1", route_class=StrictRoute, dependencies=[needs(role)],  # type: ignore[list-item]
        responses=responses, tags=list(tags),
    )  # fmt: skip


def answer(found: Any, status: int = 200) -> Response:
    """Return a value as JSON; numbers that JSON cannot hold become null."""
    return Response(orjson.dumps(found), status, media_type="application/json")


__all__ = ["Problem", "answer", "router"]
