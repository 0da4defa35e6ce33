"""Download the raw file of a data set with pooch, which checks its digest before it gets a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from sdgar.errors import ResourceError, UsageError
from sdgar.lab.datasets.catalogue import Dataset
from sdgar.storage.files import digest, disk_error

Progress = Callable[[int, int | None], None]
"""A function that is called with the bytes received so far and the total, None if unknown."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A raw file on this machine, and the digest that it was checked against."""

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
    """Download the raw file of a data set into a folder, or check the one that is there.

    A mirror (``url``) must deliver the published bytes. ``sha256`` replaces the published digest.
    """
    source = _web_address(url or dataset.url)
    kind, published = _digest_of(dataset, sha256)
    target = folder / dataset.filename
    try:
        if target.exists() and not target.is_file():
            raise UsageError(
                f"{target} is in the way: it is not a file. Remove it, or choose another folder.",
                code="not_a_file",
            )
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _retrieve(source, target, kind and f"{kind}:{published}", progress, timeout)
        elif kind and digest(target, kind) != published:
            raise ResourceError(
                f"{target} is there already, but is another file: its {kind.upper()} is not "
                f"{published}. Move it away, or choose another folder.",
                code="wrong_digest",
            )
        return Downloaded(target, target.stat().st_size, digest(target, "sha256"), kind)
    except OSError as error:
        raise disk_error(target, error) from error


def _digest_of(dataset: Dataset, sha256: str | None) -> tuple[Literal["sha256", "md5"] | None, str]:
    """Return the kind and the digits of the digest that the file must have, if one is known."""
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise UsageError(f"a SHA-256 has 64 hexadecimal digits, got {sha256!r}.", code="bad_digest")
    if sha256 or dataset.sha256:
        return "sha256", (sha256 or dataset.sha256 or "").lower()
    return ("md5", dataset.md5) if dataset.md5 else (None, "")


def _retrieve(
    source: str, target: Path, known_hash: str | None, progress: Progress | None, timeout: float
) -> None:
    """Download a file under a temporary name, check it, and rename it."""
    try:
        import pooch
        import requests
    except ImportError as error:
        raise UsageError(
            "downloads need the package pooch. Install it with: pip install 'sdgar[data]'",
            code="missing_package",
        ) from error

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(
        progressbar=_ProgressBar(progress) if progress else False,
        timeout=timeout,
        # A packed transfer would hide the length of the file.
        headers={"User-Agent": "sdgar", "Accept-Encoding": "identity"},
    )
    try:
        pooch.retrieve(source, known_hash, target.name, target.parent, downloader=downloader)
    except requests.HTTPError as error:
        found: Any = error.response
        advice = (
            "The server has a problem; try again later"
            if found.status_code >= 500
            else "The file may have moved; look for it at the home page and name it with --url"
        )
        raise ResourceError(
            f"{source}: the server answered {found.status_code} {found.reason}. {advice}.",
            code="http_error",
        ) from error
    except requests.RequestException as error:
        raise ResourceError(
            f"{source} cannot be downloaded: {error}. Check the network and try again, or name a "
            "mirror with --url.",
            code="unreachable",
        ) from error
    except ValueError as error:  # how pooch reports another digest
        raise ResourceError(
            f"{source} is not the published file: its digest is not {known_hash}. It is not used. "
            "Try again later, or name a mirror with --url.",
            code="wrong_digest",
        ) from error


class _ProgressBar:
    """What pooch needs of a progress bar, for a function that takes bytes and their total."""

    def __init__(self, report: Progress) -> None:
        self._report = report
        self._received = 0
        self.total: int | None = None

    def update(self, n_bytes: int) -> None:
        self._received += n_bytes
        if self.total:
            self._received = min(self._received, self.total)
        self._report(self._received, self.total or None)

    def reset(self) -> None:
        self._received = 0

    def close(self) -> None:
        """Do nothing: the caller closes its own display."""


def _web_address(url: str) -> str:
    """Return an address if it is one of the web and has no password; raise otherwise."""
    parts: Any = None
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        parts.netloc.encode("idna")
        wrong = "" if valid else "it names no server of the web"
    except ValueError as error:
        wrong = str(error)
    if parts is not None and "@" in parts.netloc:
        wrong = "it holds a user name, and none is ever sent. Leave out what is before the @"
    if wrong:
        shown = re.sub("//[^/]*@", "//…@", url)  # passwords are not repeated
        raise UsageError(
            f"a download needs a URL that starts with https:// or http://, got {shown!r}: {wrong}.",
            code="bad_url",
        )
    return url
