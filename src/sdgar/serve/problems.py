"""Errors as ``application/problem+json`` (RFC 9457), with stable codes and without secrets."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sdgar.errors import SdgarError
from sdgar.serve.answers import ProblemDetails

log = logging.getLogger("sdgar.serve")

MEDIA_TYPE = "application/problem+json"
_CODES = {
    400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found",
    405: "method_not_allowed", 406: "not_acceptable", 408: "too_slow", 409: "conflict",
    413: "too_large", 415: "not_json", 422: "invalid", 429: "too_many_requests",
    431: "headers_too_large", 503: "overloaded", 504: "timeout",
}  # fmt: skip
_STATUS = {
    "unknown_user": 404, "unknown_item": 404, "no_reasons": 409, "no_vectors": 409,
    "no_fold_in": 409, "bad_context": 409, "unknown_context": 404, "empty_history": 404,
    "unknown_variant": 404, "no_store": 409, "unknown_model": 404, "refused_model": 422,
    "reloading": 409, "draining": 503, "mixed_ids": 409, "nothing_to_go_by": 409,
    "not_for_contexts": 409,
}  # fmt: skip
"""The HTTP status for the code of a library error; 422 for all others."""


class Refused(Exception):  # noqa: N818 - it is an answer, not a mistake of the server
    """A request that is refused with a status, a stable code and a sentence."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.code = code or _CODES.get(status, "error")
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, round(retry_after)))
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"


def problem(refused: Refused) -> Response:
    """Return the response to a refused request."""
    body = ProblemDetails(
        title=HTTPStatus(refused.status).phrase, status=refused.status, detail=refused.detail,
        code=refused.code,
    )  # fmt: skip
    content = orjson.dumps(body.model_dump())
    return Response(content, refused.status, refused.headers, MEDIA_TYPE)


def add_error_handlers(app: FastAPI) -> None:
    """Make an application answer every error as a problem."""

    async def on_error(request: Request, error: Exception) -> Response:
        return problem(refusal_of(error))

    for kind in (Refused, SdgarError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, on_error)


def refusal_of(error: Exception) -> Refused:
    """Return the refusal for an error; log one that is unexpected, and hide its details."""
    match error:
        case Refused():
            return error
        case SdgarError():
            return Refused(_STATUS.get(error.code, 422), str(error), code=error.code)
        case RequestValidationError() | ValidationError():
            return _invalid(error.errors())
        case orjson.JSONDecodeError():
            return _bad_json(error)
        case HTTPException():
            return Refused(error.status_code, str(error.detail), headers=error.headers)
    log.error("a request failed by a bug", exc_info=error)
    return Refused(500, "The server made a mistake; its log has more.", code="bug")


def _bad_json(why: object) -> Refused:
    return Refused(400, f"The body is not JSON: {why}.", code="bad_json")


def _invalid(errors: Sequence[Any]) -> Refused:
    """Return a refusal that names the first wrong fields, without their values (private data)."""
    if any(one["type"] == "json_invalid" for one in errors):
        return _bad_json(errors[0]["ctx"]["error"])
    fields = [[str(part) for part in one["loc"] if part != "body"] for one in errors]
    places = dict.fromkeys(
        f"{'.'.join(field or ['body'])}: {one['msg']}"
        for field, one in zip(fields, errors, strict=True)
    )
    return Refused(422, "; ".join(list(places)[:5]) + ".", code="invalid")
