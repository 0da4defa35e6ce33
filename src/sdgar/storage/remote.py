"""Files at addresses such as ``s3://bucket/path``: what is needed is copied to a cache.

What was fetched lies in a folder of the cache that has the address in ``.origin.json``, under the
names that it has there. A file is copied block by block under another name, and gets its own name
when it is whole. What is written goes to a folder of the cache first; then it is uploaded file by
file, the manifest last, so that all files that a manifest names are there before it is.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from sdgar.errors import ResourceError, SdgarError, UsageError
from sdgar.storage.files import disk_error, replacing
from sdgar.storage.sealed import MANIFEST, DamagedError, check_file, read_table

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HERE = ("file", "local")
_ELSEWHERE = (
    "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs", "webhdfs", "sftp", "ssh", "ftp",
    "http", "https", "memory",
)  # fmt: skip
"""The schemes of addresses of files; stores of events have other ones."""


def is_remote(text: object) -> TypeGuard[str]:
    """Return whether a text is an address of files, and neither a path nor a store.

    >>> from sdgar.storage.remote import is_remote
    >>> [is_remote(text) for text in ("s3://bucket/events", "logs/*.csv", "sqlite:///store.db")]
    [True, False, False]
    """
    found = _SCHEME.fullmatch(text) if isinstance(text, str) else None
    return found is not None and found[1].lower() in (*_HERE, *_ELSEWHERE)


def shown(address: str) -> str:
    """Return an address without anything that could be a secret."""
    scheme, rest = _SCHEME.fullmatch(address).groups()  # type: ignore[union-attr]
    place, _, _ = rest.partition("?")
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def local_path(address: str | Path) -> Path | None:
    """Return a path, also that of file:///data/events; None for an address elsewhere."""
    if not is_remote(address):
        return Path(address)
    scheme, _, rest = address.partition("://")
    return Path(rest) if scheme.lower() in _HERE else None


@contextmanager
def reaching(address: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of an address and the path in it; name what goes wrong there."""
    place = shown(address)
    try:
        import fsspec

        files, path = fsspec.core.url_to_fs(address)
        files.invalidate_cache()
        yield files, path.rstrip("/")
    except (SdgarError, MemoryError):
        raise
    except ImportError as error:
        raise UsageError(
            f"{place}: such addresses need more packages. Install them with: "
            "pip install 'sdgar[remote]'",
            code="missing_package",
        ) from error
    except FileNotFoundError as error:
        raise UsageError(
            f"there is nothing at {place}. Check the bucket and the path.", code="no_such_file"
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_error(cache(), error) from error
        raise ResourceError(
            f"{place} cannot be reached ({type(error).__name__}). Check the network, the endpoint, "
            "and what the credentials allow, and run the command again: what was copied stays.",
            code="unreachable",
        ) from error


ORIGIN = ".origin.json"
"""The file of a folder of the cache that says which address it stands for."""
CACHE = "SDGAR_CACHE"
"""The environment variable that names the folder of the cache."""
_MAGIC = frozenset("*?[")
_DEPTH = 64
"""The most folders above a file in which its origin is looked for."""


def cache() -> Path:
    """Return the folder of the cache: SDGAR_CACHE, or one of the user's cache."""
    if named := os.environ.get(CACHE):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sdgar" / "remote"


def here(paths: Iterable[Any]) -> list[Any]:
    """Return paths; what is at an address is copied to the cache first."""
    return [fetched(path) if is_remote(path) else path for path in paths]


def fetched(address: str | Path) -> Path:
    """Copy what is at an address to the cache; return a file, a folder or a pattern of it there.

    Of a folder with a manifest, such as one of shards, only manifests are copied; see ``ensure``.
    """
    if (local := local_path(address)) is not None:
        return local
    address = str(address)
    with reaching(address) as (files, path):
        if files.exists(f"{path}/{MANIFEST}"):
            return fetched_folder(address, lazily=True)
        if files.isdir(path):
            base, wanted, names = path, "", sorted(files.find(path))
        else:
            parts = PurePosixPath(path).parts
            plain = next((n for n, part in enumerate(parts) if _MAGIC & set(part)), len(parts) - 1)
            base, wanted = str(PurePosixPath(*parts[:plain])), "/".join(parts[plain:])
            names = sorted(files.glob(path)) if _MAGIC & set(path) else [path]
        if not names:
            raise FileNotFoundError(address)
        folder = _folder_for(address, wanted)
        for name in names:
            _fetch(files, name, folder / _below(name, base))
    return folder / wanted


def fetched_folder(address: str | Path, *, lazily: bool = False) -> Path:
    """Copy a folder that has a manifest to the cache, and return where it is.

    With ``lazily`` only manifests are copied now; ``ensure`` copies other files when they are
    needed. All are compared with the manifest of their folder.
    """
    if (local := local_path(address)) is not None:
        return local
    address = str(address)
    with reaching(address) as (files, path):
        sizes = {_below(n, path): info["size"] for n, info in files.find(path, detail=True).items()}
        if MANIFEST not in sizes:
            raise FileNotFoundError(address)
        folder = _folder_for(address)
        manifests = [name for name in sorted(sizes) if PurePosixPath(name).name == MANIFEST]
        for name in manifests:
            _fetch(files, f"{path}/{name}", folder / name)
        for name in manifests:
            named = read_table(folder / name).get("files")
            for file, entry in named.items() if isinstance(named, dict) else ():
                _require_size(address, PurePosixPath(name).parent / file, entry, sizes)
                if not lazily:
                    ensure((folder / name).parent / file)
    return folder


def ensure(path: Path) -> None:
    """Copy a file of a folder of the cache that is not there yet, and compare its SHA-256."""
    if path.exists() or (folder := origin_of(path)) is None:
        return
    with reaching(_origin(folder)["address"]) as (files, base):
        table = read_table(path.parent / MANIFEST)["files"]
        with _arriving(path) as part:
            files.get_file(f"{base}/{path.relative_to(folder).as_posix()}", str(part))
            try:
                check_file(part, {part.name: table.get(path.name)})
            except DamagedError as error:
                raise DamagedError(path, error.found.partition(" is damaged: ")[2]) from error


def origin_of(path: Path) -> Path | None:
    """Return the folder of the cache that a path lies in and that has an address, if any."""
    return next((folder for folder in list(path.parents)[:_DEPTH] if _origin(folder)), None)


def address_of(path: Path) -> str | None:
    """Return the address that ``fetched`` gave a path for; None for any other path."""
    for folder in [path, *path.parents][:_DEPTH]:
        origin = _origin(folder)
        if origin and folder / origin["gives"] == path:
            return origin["address"]
    return None


def seen_as(path: Path) -> str:
    """Return where people find a file: at the address that its folder is made for, or here."""
    address = address_of(path.parent)
    return str(path) if address is None else f"{address}/{path.name}"


def place_for(address: str | Path) -> Path:
    """Return a folder of the cache to make something in, which ``deliver`` then takes away."""
    if (local := local_path(address)) is not None:
        return local
    address = str(address)
    name = PurePosixPath(shown(address)).name
    return _folder_for(f"to {address}", name, shown(address)) / name


def require_absent(place: Path, *, overwrite: bool) -> None:
    """Raise if there is something at the address that a place is for, unless it may be replaced."""
    address = address_of(place)
    if address is None:
        return
    with reaching(address) as (files, path):
        taken = files.exists(path) and bool(files.find(path))
    if taken and not overwrite:
        raise UsageError(
            f"{address} exists. Choose another place, or replace it with --overwrite.",
            code="out_exists",
        )


def deliver(place: Path) -> str:
    """Upload a folder to the address that it was made for, manifests last; return where it is.

    A folder that was made for no address stays.
    """
    address = address_of(place)
    if address is None:
        return str(place)
    with reaching(address) as (files, path):
        names = sorted(file.relative_to(place) for file in place.rglob("*") if file.is_file())
        before = {_below(name, path) for name in files.find(path)}
        for name in sorted(before, key=len):
            if PurePosixPath(name).name == MANIFEST:
                files.rm(f"{path}/{name}")  # until all files are there, nothing says so
                before.remove(name)
        for own in sorted(names, key=lambda own: (own.name == MANIFEST, -len(own.parts))):
            target = PurePosixPath(path, own.as_posix())
            files.makedirs(str(target.parent), exist_ok=True)
            files.put_file(str(place / own), str(target))
        for name in sorted(before - {own.as_posix() for own in names}):
            files.rm(f"{path}/{name}")
    shutil.rmtree(place.parent)
    return address


def _folder_for(key: str, gives: str = "", address: str | None = None) -> Path:
    """Make the folder of the cache for an address; ``gives`` is the requested path in it."""
    folder = cache() / hashlib.sha256(key.encode()).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(folder, error) from error
    with replacing(folder / ORIGIN) as temporary:
        temporary.write_text(json.dumps({"address": address or shown(key), "gives": gives}))
    return folder


def _origin(folder: Path) -> dict[str, str]:
    """Return the address and the requested path of a folder of the cache; empty for any other."""
    try:
        known = (folder / ORIGIN).exists()
    except OSError:  # a name that no file can have
        known = False
    return read_table(folder / ORIGIN) if known else {}


def _fetch(files: Any, name: str, target: Path) -> None:
    """Copy a file to the cache, unless what lies there has not changed since."""
    info = files.info(name)
    stamp = {k: str(info[k]) for k in ("size", "ETag", "mtime", "LastModified") if k in info}
    note = target.with_name(f".{target.name}.stamp")
    if target.exists() and note.exists() and read_table(note) == stamp:
        return
    note.unlink(missing_ok=True)
    with _arriving(target) as part:
        files.get_file(name, str(part))
    if len(stamp) > 1:  # a size alone does not show that a file has changed
        with replacing(note) as temporary:
            temporary.write_text(json.dumps(stamp))


@contextmanager
def _arriving(target: Path) -> Iterator[Path]:
    """Yield a name for a file that is not whole yet."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _below(name: str, base: str) -> str:
    return PurePosixPath(name.lstrip("/")).relative_to(base.strip("/")).as_posix()


def _require_size(address: str, name: PurePosixPath, entry: Any, sizes: dict[str, int]) -> None:
    """Raise if a file is missing at an address, or has another size than its manifest says."""
    size, said = sizes.get(name.as_posix()), entry.get("bytes") if isinstance(entry, dict) else None
    if size != said or size is None:
        found = "is missing" if size is None else f"has {size:,} bytes"
        raise ResourceError(
            f"{shown(address)}/{name} {found}, and its manifest says {said!r} bytes. "
            "Upload the folder again.",
            code="damaged",
        )
