"""Fetch a raw file: streamed, resumed where it broke off, and checked before it gets its name.

What a server sends is not trusted. A file that is not what was published leaves nothing
behind; only a transfer that broke off leaves a ``.part``, to be resumed by the next call. All that
comes before a body (redirects too) has one deadline and a bounded size, and so has each piece of a
body; over many pieces a body must keep to a least speed.
"""

from __future__ import annotations

import io
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
)
from pathlib import Path
from socket import socket
from typing import IO, TYPE_CHECKING, Any, Literal
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit

from sdgar.data.datasets import Dataset
from sdgar.errors import ResourceError, UsageError
from sdgar.storage.whole_files import digest, disk_error, settle

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_DOWNLOAD_BYTES = 8 << 30
"""Where neither we nor the server know the size."""
MIN_BYTES_PER_SECOND = 1024
"""A body slower than this over a whole timeout is given up; socket timeouts miss a drip."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and the total, None where it is unknown."""

_CHUNK_BYTES = 1 << 18
_STEP_BYTES = 1 << 20
"""What may come before a body, or with one piece of it: headers, sizes of chunks, trailers."""
_HEAD_BYTES = 64
_PAGE_STARTS = (b"<!doctype html", b"<html", b"<head")


class DownloadInterruptedError(ResourceError):
    """A transfer that broke off; the same call resumes it."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A raw file on this machine, and how far it was checked."""

    path: Path
    size: int
    sha256: str
    checked: Literal["sha256", "md5"] | None
    """The kind of digest it was checked against; None where there is none to check against."""

    def note(self) -> str:
        """One line for people."""
        if self.checked:
            return f"{self.path}: {self.size:,} bytes, {self.checked.upper()} as published."
        return (
            f"{self.path}: {self.size:,} bytes. No digest is published for this file, so it was "
            f"not checked. To pin it from now on, pass --sha256 {self.sha256}."
        )


def download(
    dataset: Dataset,
    folder: Path,
    *,
    progress: Progress | None = None,
    url: str | None = None,
    sha256: str | None = None,
    timeout: float = 30.0,
) -> Downloaded:
    """Fetch the raw file of a data set into a folder, or check the one that is there.

    A mirror (``url``) must deliver the same bytes. A digest of the caller's own (``sha256``)
    takes the place of everything we know of the file.
    """
    source = _checked_url(url or dataset.url)
    published = _Published.of(dataset, sha256)
    target = folder / dataset.filename
    part = _Part(target.with_name(f"{target.name}.part"))
    try:
        for path in (target, part.path, part.mark_path):
            if path.exists() and not path.is_file():
                raise UsageError(
                    f"{path} is in the way: it is not a file. Remove it, or choose another folder.",
                    code="not_a_file",
                )
        if target.exists():
            return published.accept(target, f"{target} is there already, but is another file")
        folder.mkdir(parents=True, exist_ok=True)
        found = _fetch(source, part, published, progress, timeout)
        settle(part.path, target)
        part.discard()
    except OSError as error:
        raise disk_error(target, error) from error
    return replace(found, path=target)


@dataclass(frozen=True, slots=True)
class _Published:
    """What is known of the file beforehand."""

    size: int | None
    digests: dict[Literal["sha256", "md5"], str]

    @classmethod
    def of(cls, dataset: Dataset, sha256: str | None) -> _Published:
        if sha256 is not None:
            if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
                raise UsageError(
                    f"a SHA-256 has 64 hexadecimal digits, got {sha256!r}.", code="bad_digest"
                )
            return cls(None, {"sha256": sha256.lower()})
        digests: dict[Literal["sha256", "md5"], str] = {}
        if dataset.sha256:
            digests["sha256"] = dataset.sha256
        elif dataset.md5:
            digests["md5"] = dataset.md5
        return cls(dataset.size, digests)

    def accept(self, path: Path, blame: str) -> Downloaded:
        """Check a whole file, and blame someone if it is not the published one."""
        size, sha256 = path.stat().st_size, digest(path, "sha256")
        if self.size not in (None, size):
            raise _refused(f"{blame}: it has {size:,} bytes, not {self.size:,}", "wrong_size")
        for kind, wanted in self.digests.items():
            found = sha256 if kind == "sha256" else digest(path, kind)
            if found != wanted:
                raise _refused(
                    f"{blame}: its {kind.upper()} is {found}, not {wanted}", "wrong_digest"
                )
        return Downloaded(path, size, sha256, next(iter(self.digests), None))


@dataclass(frozen=True, slots=True)
class _Part:
    """The bytes received so far, and the mark by which the server knows their version."""

    path: Path

    @property
    def mark_path(self) -> Path:
        return self.path.with_name(self.path.name + ".mark")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def mark(self) -> str | None:
        mark = self.mark_path.read_text("latin-1") if self.mark_path.exists() else ""
        return mark if mark.isascii() and mark.isprintable() and mark else None

    def start(self, mark: str | None) -> None:
        """Forget earlier bytes, which belong to another response."""
        self.discard()
        if mark:
            self.mark_path.write_text(mark, "latin-1")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.mark_path.unlink(missing_ok=True)


def _fetch(
    source: str, part: _Part, published: _Published, progress: Progress | None, timeout: float
) -> Downloaded:
    """Complete the part and check it."""
    # Bytes of two versions of a file would be joined unnoticed if neither a digest nor the
    # server's own mark tells them apart.
    if not (published.digests or part.mark):
        part.discard()
    patience = _Patience(timeout)
    response, offset = _open(source, part, patience)
    with response:
        total = None if response.length is None else offset + response.length
        _refuse_response(response, source, published.size, total)
        _refuse_full_disk(part.path.parent, (total or offset) - offset)
        try:
            if offset == 0:
                part.start(_mark(response.headers))
            with part.path.open("ab") as out:
                _receive(response, source, out, published.size or total, progress, patience)
            return published.accept(part.path, f"{source} is not the published file")
        except (DownloadInterruptedError, KeyboardInterrupt):
            if part.size == 0:
                part.discard()
            raise
        except BaseException:
            part.discard()
            raise


def _receive(
    response: HTTPResponse,
    source: str,
    out: IO[bytes],
    size: int | None,
    progress: Progress | None,
    patience: _Patience,
) -> None:
    received, head = out.tell(), b""
    limit = MAX_DOWNLOAD_BYTES if size is None else size
    for chunk in _chunks(response, source, patience):
        if received < _HEAD_BYTES:
            head += chunk[:_HEAD_BYTES]
            if head.lstrip().lower().startswith(_PAGE_STARTS):
                raise _page(source)
        received += len(chunk)
        if received > limit:
            raise _refused(f"{source} sends more than {limit:,} bytes", "wrong_size")
        out.write(chunk)
        if progress:
            progress(received, size)
    if size is not None and received < size:
        raise _interrupted(source, f"it sent {received:,} of {size:,} bytes")


def _chunks(response: HTTPResponse, source: str, patience: _Patience) -> Iterator[bytes]:
    since, in_window = time.monotonic(), 0
    while True:
        patience.renew()
        try:
            chunk = response.read1(_CHUNK_BYTES)
        except (OSError, HTTPException) as error:
            raise _interrupted(source, str(error) or type(error).__name__) from error
        if not chunk:
            return
        yield chunk
        in_window += len(chunk)
        seconds = time.monotonic() - since
        if seconds > patience.seconds:
            if in_window < MIN_BYTES_PER_SECOND * seconds:
                raise _interrupted(source, f"it sent {in_window} bytes in {seconds:.0f} s")
            since, in_window = time.monotonic(), 0


class _Patience:
    """How long, and for how many bytes, a server may keep us before it has said the next thing."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Wait for the next thing from now on."""
        self._until = time.monotonic() + self.seconds
        self._bytes = _CHUNK_BYTES + _STEP_BYTES

    def seconds_left(self) -> float:
        """Time until it is out."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def spend(self, n: int) -> None:
        """Take note of bytes that came."""
        self._bytes -= n
        if self._bytes < 0:
            raise OSError("the server sends headers without end")


class _PatientReader(io.RawIOBase):
    """The bytes of a connection, for as long as the patience lasts."""

    def __init__(self, connection: socket, patience: _Patience) -> None:
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
    """Speaks http and https with servers that have a deadline."""

    def __init__(self, patience: _Patience) -> None:
        super().__init__()
        self._patience = patience
        self._heard: list[HTTPResponse] = []

    def hang_up(self) -> None:
        """Close what failures have left open."""
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


def _open(source: str, part: _Part, patience: _Patience) -> tuple[HTTPResponse, int]:
    """Ask for what is missing; give the response and the offset at which it starts."""
    offset = part.size
    # A packed transfer would hide the length and the bytes that the digest is of.
    headers = {"User-Agent": "sdgar", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if part.mark:
            headers["If-Range"] = part.mark
    response = _request(request.Request(source, headers=headers), patience)
    if response.status == 200:
        return response, 0
    begins = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if response.status == 206 and offset and begins and int(begins[1]) == offset:
        return response, offset
    response.close()
    if not offset:
        raise ResourceError(
            f"{source}: the server answered {response.status} where 200 is expected. "
            "Try again later, or name a mirror with --url.",
            code="http_error",
        )
    part.discard()
    return _open(source, part, patience)


def _request(asked: request.Request, patience: _Patience) -> HTTPResponse:
    """Open, with every failure turned into a sentence."""
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
        raise _refused(f"{asked.full_url} redirects badly: {error}", "bad_redirect") from error
    finally:
        if response is None:
            speaker.hang_up()
    assert isinstance(response, HTTPResponse)
    return response


class _Redirects(request.HTTPRedirectHandler):
    """Follow redirects to the web only, and never from https to http."""

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
    """Let 416 pass as an answer: it says that our part does not fit the file."""

    def http_response(self, request: request.Request, response: HTTPResponse) -> HTTPResponse:
        if response.status == 416:
            return response
        passed: HTTPResponse = super().http_response(request, response)
        return passed

    https_response = http_response


def _opener(speaker: _Patiently) -> request.OpenerDirector:
    """Speak http and https, and nothing else: ``build_opener`` would add files and ftp."""
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


def _checked_url(url: str) -> str:
    if wrong := _wrong_with(url):
        shown = re.sub("//[^/]*@", "//…@", url)  # a password is nobody's to read
        raise UsageError(
            f"a download needs a URL that starts with https:// or http://, got {shown!r}: {wrong}.",
            code="bad_url",
        )
    return url


def _wrong_with(url: str, schemes: tuple[str, ...] = ("http", "https")) -> str | None:
    """Why an address cannot be asked for; None if it can be."""
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


def _mark(headers: HTTPMessage) -> str | None:
    """What ``If-Range`` may carry: a strong ETag, or else a date."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified")


def _refuse_response(
    response: HTTPResponse, source: str, published_size: int | None, total: int | None
) -> None:
    """Look at the headers before a byte is kept."""
    if response.headers.get_content_type() in ("text/html", "application/xhtml+xml"):
        raise _page(source)
    coding = response.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise _refused(f"{source} sends its bytes encoded as {coding}, unasked", "bad_encoding")
    if None not in (published_size, total) and published_size != total:
        raise _refused(
            f"{source} offers {total:,} bytes, the published file has {published_size:,}",
            "wrong_size",
        )


def _refuse_full_disk(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ResourceError(
            f"{folder} has {free:,} bytes free, the download needs {needed:,}. Free some space "
            "or choose another folder.",
            code="disk_full",
        )


def _refused(what: str, code: str) -> ResourceError:
    return ResourceError(
        f"{what}. It is not used. Try again later, or name a mirror with --url.", code=code
    )


def _page(source: str) -> ResourceError:
    return _refused(f"{source} answers with a web page instead of the file", "web_page")


def _interrupted(source: str, why: str) -> DownloadInterruptedError:
    return DownloadInterruptedError(
        f"{source} broke off: {why}. Run the same command again to go on from there.",
        code="interrupted",
    )


def _http_error(source: str, error: HTTPError) -> ResourceError:
    if 300 <= error.code < 400:
        return _refused(f"{source} redirects to {error.headers.get('Location')!r}", "bad_redirect")
    advice = (
        "The server has a problem; try again later"
        if error.code >= 500
        else "The file may have moved; look for it at the home page and name it with --url"
    )
    return ResourceError(
        f"{source}: the server answered {error.code} {error.reason}. {advice}.", code="http_error"
    )
