"""Turn what a database complains of into errors that name the store and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from sqlalchemy import exc

from sdgar.errors import ArtifactError, DataError, ResourceError, SdgarError, UsageError
from sdgar.serve.store.address import Address

_SQLITE: dict[str, tuple[type[SdgarError], str, str]] = {
    "SQLITE_BUSY": (
        ResourceError,
        "store_busy",
        "Another process holds it for long. Try again, or use PostgreSQL for several servers.",
    ),
    "SQLITE_FULL": (ResourceError, "disk_full", "Free some space."),
    "SQLITE_NOTADB": (
        DataError,
        "not_a_store",
        "The file is no SQLite database. Choose another name for the store.",
    ),
    "SQLITE_CORRUPT": (ArtifactError, "damaged_store", "Put back a copy of the file."),
    "SQLITE_READONLY": (
        UsageError,
        "read_only_store",
        "Check the permissions of the file and of its folder.",
    ),
    "SQLITE_PERM": (ResourceError, "file_access", "Check the permissions of the file."),
    "SQLITE_CANTOPEN": (
        ResourceError,
        "file_access",
        "Check the path, and the permissions of the file and of its folder.",
    ),
    "SQLITE_IOERR": (ResourceError, "file_access", "Check the disk."),
}
_POSTGRESQL: dict[str, tuple[type[SdgarError], str, str]] = {
    "28": (
        ResourceError,
        "store_refused",
        "Check user and password; PGPASSWORD or the file .pgpass may hold the password.",
    ),
    "3D": (ResourceError, "no_such_store", "Make the database first: createdb NAME."),
    "25006": (UsageError, "read_only_store", "It is open for reading alone."),
    "42501": (ResourceError, "store_refused", "Grant the user the rights to make and use tables."),
    "53100": (ResourceError, "disk_full", "Free some space on the server."),
    "53": (ResourceError, "store_busy", "The server has no room for more. Try again later."),
    "57": (ResourceError, "store_unreachable", "Check that the server runs."),
    "08": (ResourceError, "store_unreachable", "Check that the server runs."),
}
_UNREACHABLE = (
    ResourceError,
    "store_unreachable",
    "Check that the server runs, and the host, port, user and password of the address.",
)


@contextmanager
def named(address: Address) -> Iterator[None]:
    """Raise an error of this package for one of the database; what is a bug stays as it is."""
    try:
        yield
    except exc.TimeoutError as error:
        raise ResourceError(
            f"the store {address} has no free connection. Try again, or ask with fewer threads.",
            code="store_busy",
        ) from error
    except exc.DBAPIError as error:
        told = _told(address, error)
        if told is None:
            raise
        raise told from error


def _told(address: Address, error: exc.DBAPIError) -> SdgarError | None:
    found = _of_sqlite(error) if address.path is not None else _of_postgresql(error)
    if found is None:
        return None
    kind, code, cure = found
    text = " ".join(str(error.orig).split()).rstrip(".")
    for secret in filter(None, (address.password, unquote(address.password or ""))):
        text = text.replace(secret, "***")
    return kind(f"the store {address} cannot be used: {text}. {cure}", code=code)


def _of_sqlite(error: exc.DBAPIError) -> tuple[type[SdgarError], str, str] | None:
    name = getattr(error.orig, "sqlite_errorname", "")
    return next((told for known, told in _SQLITE.items() if name.startswith(known)), None)


def _of_postgresql(error: exc.DBAPIError) -> tuple[type[SdgarError], str, str] | None:
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return _UNREACHABLE if isinstance(error, exc.OperationalError) else None
    return next((told for known, told in _POSTGRESQL.items() if state.startswith(known)), None)
