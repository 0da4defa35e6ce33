"""The page at ``/``: a few files of the package, held in memory and served as they are.

No request names a file: the paths are those that were read at the start, and nothing else.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import Response

_KINDS = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}  # fmt: skip
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: https: http:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""The page may load nothing from elsewhere but pictures of items."""


def routes() -> APIRouter:
    """Return the routes of the page's files."""
    router = APIRouter(include_in_schema=False)
    for path, (data, kind) in _read(files("sdgar.serve") / "page").items():
        _add(router, f"/page/{path}", data, kind)
        if path == "index.html":
            _add(router, "/", data, kind)
    return router


def _read(folder: Traversable, prefix: str = "") -> dict[str, tuple[bytes, str]]:
    found: dict[str, tuple[bytes, str]] = {}
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            found |= _read(entry, f"{prefix}{entry.name}/")
        elif suffix in _KINDS:
            found[f"{prefix}{entry.name}"] = (entry.read_bytes(), _KINDS[suffix])
    return found


def _add(router: APIRouter, path: str, data: bytes, kind: str) -> None:
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {**HEADERS, "ETag": tag}

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    router.add_api_route(path, page, methods=["GET", "HEAD"])
