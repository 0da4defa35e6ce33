"""Errors as ``application/problem+json`` (RFC 9457), with stable codes and without secrets."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sdgar.errors import SdgarError
from sdgar.serve.schemas import Problem

log = logging.getLogger("sdgar.serve")

MEDIA_TYPE = "application/problem+json"
FORMS = ("users", "histories", "contexts", "user", "history")
"""The words by which the form of a request is chosen."""
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
"""The status of an error of the library: what a request names may be valid and yet not here."""


class Refused(Exception):  # noqa: N818 - it is an answer, and no mistake of ours
    """A request that is refused with a status, a stable code and a sentence."""

    def __init__(
        self, status: int, detail: str, *, code: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.code = code or _CODES.get(status, "error")
        self.retry_after = retry_after


def problem(refused: Refused) -> Response:
    """Return the answer to a request that is refused."""
    body = Problem(
        title=HTTPStatus(refused.status).phrase, status=refused.status, detail=refused.detail,
        code=refused.code,
    )  # fmt: skip
    headers = {}
    if refused.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refused.retry_after)))
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        orjson.dumps(body.model_dump()), refused.status, headers=headers, media_type=MEDIA_TYPE
    )


def told(error: SdgarError) -> Refused:
    """Say what an error of the library means to the one who asked."""
    status = _STATUS.get(error.code, 422)
    return Refused(status, str(error), code=error.code)


def bug(error: Exception) -> Refused:
    """Log an error that nobody asked for, and say no more than that there was one."""
    log.error("a request failed by a bug", exc_info=error)
    return Refused(500, "The server made a mistake; its log has more.", code="bug")


def told_by(app: FastAPI) -> None:
    """Let an application answer every error in this form."""

    async def refused(request: Request, error: Any) -> Response:
        return problem(error)

    async def of_library(request: Request, error: Any) -> Response:
        return problem(told(error))

    async def not_fitting(request: Request, error: Any) -> Response:
        return problem(invalid(error.errors()))

    async def of_http(request: Request, error: Any) -> Response:
        answer = problem(Refused(error.status_code, str(error.detail)))
        answer.headers.update(error.headers or {})
        return answer

    async def by_bug(request: Request, error: Any) -> Response:
        return problem(bug(error))

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(SdgarError, of_library)
    app.add_exception_handler(RequestValidationError, not_fitting)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, by_bug)


def bad_json(why: str) -> Refused:
    """Say that a body is no JSON."""
    return Refused(400, f"The body is no JSON: {why}.", code="bad_json")


def invalid(errors: Sequence[Any]) -> Refused:
    """Name the first places that are wrong; values are left out, as they may be personal."""
    if any(one["type"] == "json_invalid" for one in errors):
        return bad_json(str(errors[0]["ctx"]["error"]))
    places = dict.fromkeys(f"{_place(one['loc'])}: {one['msg']}" for one in errors)
    return Refused(422, "; ".join(list(places)[:5]) + ".", code="invalid")


def _place(parts: Any) -> str:
    """Name a place of a request, without the word by which its form was chosen."""
    told = [part for part in parts if part != "body"] or ["body"]
    if len(told) > 1 and told[0] in FORMS:
        del told[0]
    return ".".join(str(part) for part in told)
