"""Fetch a raw file: streamed, resumed where it broke off, and checked before it gets its name.

What a server sends is not trusted. A file that is not what was published leaves nothing
behind; only a transfer that broke off leaves a ``.part``, to be resumed by the next call. All that
comes before a body (redirects too) has one deadline and a bounded size, and so has each chunk of a
body; over many chunks a body must keep to a least speed.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, Literal
from urllib import request

from sdgar.errors import ResourceError, UsageError
from sdgar.lab.datasets.catalogue import Dataset
from sdgar.lab.datasets.web import CHUNK_BYTES, Patience, ask, checked_url, refused
from sdgar.storage.whole_files import digest, disk_error, flush

MAX_DOWNLOAD_BYTES = 8 << 30
"""The most bytes of a file whose size neither we nor the server know."""
MIN_BYTES_PER_SECOND = 1024
"""The least speed of a body over a whole timeout; the timeouts of sockets miss a slow drip."""

Progress = Callable[[int, int | None], None]
"""A function that is called with the bytes received so far and the total, None if unknown."""

_HEAD_BYTES = 64
_PAGE_STARTS = (b"<!doctype html", b"<html", b"<head")


class DownloadInterruptedError(ResourceError):
    """A transfer that broke off; the same call resumes it."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A raw file on this machine, and how far it was checked."""

    path: Path
    """The place of the file."""
    size: int
    """The size in bytes."""
    sha256: str
    """The SHA-256 of the file."""
    checked: Literal["sha256", "md5"] | None
    """The kind of digest it was checked against; None if none is published."""

    def note(self) -> str:
        """Return one line for people."""
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
    source = checked_url(url or dataset.url)
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
        flush(part.path)
        part.path.replace(target)
        part.discard()
    except OSError as error:
        raise disk_error(target, error) from error
    return replace(found, path=target)


@dataclass(frozen=True, slots=True)
class _Published:
    """The size and digests of the file that are known beforehand."""

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
        """Return a whole file if it is the published one; raise with ``blame`` if not."""
        size, sha256 = path.stat().st_size, digest(path, "sha256")
        if self.size not in (None, size):
            raise refused(f"{blame}: it has {size:,} bytes, not {self.size:,}", "wrong_size")
        for kind, wanted in self.digests.items():
            found = sha256 if kind == "sha256" else digest(path, kind)
            if found != wanted:
                raise refused(
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
        """Remove earlier bytes, which belong to another response, and note the new mark."""
        self.discard()
        if mark:
            self.mark_path.write_text(mark, "latin-1")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.mark_path.unlink(missing_ok=True)


def _fetch(
    source: str, part: _Part, published: _Published, progress: Progress | None, timeout: float
) -> Downloaded:
    """Complete the ``.part`` file and check it."""
    # Bytes of two versions of a file would be joined unnoticed if neither a digest nor the
    # server's own mark tells them apart.
    if not (published.digests or part.mark):
        part.discard()
    patience = Patience(timeout)
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
    patience: Patience,
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
            raise refused(f"{source} sends more than {limit:,} bytes", "wrong_size")
        out.write(chunk)
        if progress:
            progress(received, size)
    if size is not None and received < size:
        raise _interrupted(source, f"it sent {received:,} of {size:,} bytes")


def _chunks(response: HTTPResponse, source: str, patience: Patience) -> Iterator[bytes]:
    since, in_window = time.monotonic(), 0
    while True:
        patience.renew()
        try:
            chunk = response.read1(CHUNK_BYTES)
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


def _open(source: str, part: _Part, patience: Patience) -> tuple[HTTPResponse, int]:
    """Ask for the missing bytes; return the response and the offset at which it starts."""
    offset = part.size
    # A packed transfer would hide the length and the bytes that the digest is of.
    headers = {"User-Agent": "sdgar", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if part.mark:
            headers["If-Range"] = part.mark
    response = ask(request.Request(source, headers=headers), patience)
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


def _mark(headers: HTTPMessage) -> str | None:
    """Return what ``If-Range`` may carry: a strong ETag, or else a date."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified")


def _refuse_response(
    response: HTTPResponse, source: str, published_size: int | None, total: int | None
) -> None:
    """Raise if the headers show that this is not the file, before a byte is kept."""
    if response.headers.get_content_type() in ("text/html", "application/xhtml+xml"):
        raise _page(source)
    coding = response.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise refused(f"{source} sends its bytes encoded as {coding}, unasked", "bad_encoding")
    if None not in (published_size, total) and published_size != total:
        raise refused(
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


def _page(source: str) -> ResourceError:
    return refused(f"{source} answers with a web page instead of the file", "web_page")


def _interrupted(source: str, why: str) -> DownloadInterruptedError:
    return DownloadInterruptedError(
        f"{source} broke off: {why}. Run the same command again to go on from there.",
        code="interrupted",
    )
