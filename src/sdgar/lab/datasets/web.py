"""Ask a web server for a file, with a deadline and a bound on what it may send before a body."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
)
from socket import socket
from typing import IO, TYPE_CHECKING, Any
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit

from sdgar.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK_BYTES = 1 << 18
"""The most bytes of a body that are read at a time."""
_STEP_BYTES = 1 << 20
"""The most bytes that may come before a body or with one chunk of it, such as headers."""


class Patience:
    """The time and the bytes that a server may take before the next chunk of its answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Begin to wait for the next chunk."""
        self._until = time.monotonic() + self.seconds
        self._bytes = CHUNK_BYTES + _STEP_BYTES

    def seconds_left(self) -> float:
        """Return the seconds that are left; raise if there are none."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def spend(self, n: int) -> None:
        """Count bytes that came; raise if they are too many."""
        self._bytes -= n
        if self._bytes < 0:
            raise OSError("the server sends headers without end")


class _PatientReader(io.RawIOBase):
    """The bytes of a connection, read for as long as the patience lasts."""

    def __init__(self, connection: socket, patience: Patience) -> None:
        self._connection, self._patience = connection, patience
        self._bytes = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._connection.settimeout(self._patience.seconds_left())
        n = self._bytes.readinto(buffer)
        self._patience.spend(n or 0)
        return n

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _Patiently(request.AbstractHTTPHandler):
    """A handler that speaks http and https with servers that have a deadline."""

    def __init__(self, patience: Patience) -> None:
        super().__init__()
        self._patience = patience
        self._heard: list[HTTPResponse] = []

    def hang_up(self) -> None:
        """Close the responses that failures have left open."""
        for response in self._heard:
            response.close()

    def _connected(self, kind: type[HTTPConnection]) -> Callable[..., HTTPConnection]:
        def response(connection: socket, *args: Any, **options: Any) -> HTTPResponse:
            made = HTTPResponse(connection, *args, **options)
            made.fp.close()
            made.fp = io.BufferedReader(_PatientReader(connection, self._patience))
            self._heard.append(made)
            return made

        def connect(host: str, **options: Any) -> HTTPConnection:
            made = kind(host, **options | {"timeout": self._patience.seconds_left()})
            made.response_class = response  # type: ignore[assignment]
            return made

        return connect

    def http_open(self, asked: request.Request) -> HTTPResponse:
        return self.do_open(self._connected(HTTPConnection), asked)

    def https_open(self, asked: request.Request) -> HTTPResponse:
        return self.do_open(self._connected(HTTPSConnection), asked)

    http_request = request.AbstractHTTPHandler.do_request_
    https_request = request.AbstractHTTPHandler.do_request_


def ask(asked: request.Request, patience: Patience) -> HTTPResponse:
    """Send a request and return the response; turn every failure into an error in words."""
    patience.renew()
    speaker, response = _Patiently(patience), None
    try:
        response = _opener(speaker).open(asked)
    except HTTPError as error:
        with error:
            raise _http_error(asked.full_url, error) from error
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise ResourceError(
            f"{asked.full_url} cannot be reached: {reason}. Check the network and try again.",
            code="unreachable",
        ) from error
    except ValueError as error:  # an address that the server redirects to, and that is none
        raise refused(f"{asked.full_url} redirects badly: {error}", "bad_redirect") from error
    finally:
        if response is None:
            speaker.hang_up()
    assert isinstance(response, HTTPResponse)
    return response


class _Redirects(request.HTTPRedirectHandler):
    """A handler that follows redirects to the web only, and never from https to http."""

    def redirect_request(
        self,
        req: request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> request.Request | None:
        allowed = ("https",) if req.type == "https" else ("http", "https")
        if _wrong_with(newurl, allowed):
            raise HTTPError(req.full_url, code, "redirect refused", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Errors(request.HTTPErrorProcessor):
    """A handler that lets 416 pass as an answer: our ``.part`` does not fit the file."""

    def http_response(self, request: request.Request, response: HTTPResponse) -> HTTPResponse:
        if response.status == 416:
            return response
        passed: HTTPResponse = super().http_response(request, response)
        return passed

    https_response = http_response


def _opener(speaker: _Patiently) -> request.OpenerDirector:
    """Return an opener of http and https only: ``build_opener`` would add files and ftp."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        speaker,
        request.HTTPDefaultErrorHandler(),
        _Redirects(),
        _Errors(),
    ):
        opener.add_handler(handler)
    return opener


def checked_url(url: str) -> str:
    """Return the address if it is one of the web; raise if not."""
    if wrong := _wrong_with(url):
        shown = re.sub("//[^/]*@", "//…@", url)  # a password is nobody's to read
        raise UsageError(
            f"a download needs a URL that starts with https:// or http://, got {shown!r}: {wrong}.",
            code="bad_url",
        )
    return url


def _wrong_with(url: str, schemes: tuple[str, ...] = ("http", "https")) -> str | None:
    """Return why an address cannot be asked for; None if it can be."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in schemes:
        return f"it begins with {parts.scheme + ':' if parts.scheme else 'no protocol'}"
    if not host or port == 0:
        return "it names no server" if not host else "no server listens on port 0"
    if "@" in parts.netloc:
        return "it holds a user name, and none is ever sent. Leave out what is before the @"
    if not url.isascii() or not url.isprintable() or " " in url:
        server = host.decode() + (f":{port}" if port else "")
        path = quote(urlunsplit(("", "", *parts[2:])), safe="%/:?#[]@!$&'()*+,;=~")
        return f"it holds a character that has to be written otherwise: //{server}{path}"
    return None


def refused(what: str, code: str) -> ResourceError:
    """Build the error for a file that is not used because of what the server sends."""
    return ResourceError(
        f"{what}. It is not used. Try again later, or name a mirror with --url.", code=code
    )


def _http_error(source: str, error: HTTPError) -> ResourceError:
    if 300 <= error.code < 400:
        return refused(f"{source} redirects to {error.headers.get('Location')!r}", "bad_redirect")
    advice = (
        "The server has a problem; try again later"
        if error.code >= 500
        else "The file may have moved; look for it at the home page and name it with --url"
    )
    return ResourceError(
        f"{source}: the server answered {error.code} {error.reason}. {advice}.", code="http_error"
    )
