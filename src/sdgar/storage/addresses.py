"""Addresses such as ``s3://bucket/path``, and the file systems behind them, by fsspec.

Credentials are those that fsspec finds, such as the environment variables of AWS. They are never
shown: errors have addresses without names of users, passwords and queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

from sdgar.errors import ResourceError, SdgarError, UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HERE = ("file", "local")
_ELSEWHERE = (
    "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs", "webhdfs", "sftp", "ssh", "ftp",
    "http", "https", "memory",
)  # fmt: skip
"""How addresses of files begin; those of stores of events begin otherwise."""
_FORBIDDEN = ("PermissionError", "NoCredentialsError", "PartialCredentialsError")
"""The names of errors for a lack of permission."""


def is_remote(text: object) -> TypeGuard[str]:
    """Tell whether a text is an address of files, and neither a path nor a store.

    >>> from sdgar.storage.addresses import is_remote
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


def local_path(address: str) -> Path | None:
    """Return the path of an address of this machine, such as file:///data/events."""
    scheme, _, rest = address.partition("://")
    return Path(rest) if scheme.lower() in _HERE else None


@contextmanager
def reaching(address: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of an address and the path in it; name what goes wrong there."""
    place = shown(address)
    scheme = place.partition(":")[0]
    try:
        import fsspec

        files, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise UsageError(
            f"{place}: addresses of {scheme}:// need more packages. Install them with: "
            "pip install 'sdgar[remote]'",
            code="missing_package",
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{place}: {scheme}:// is no kind of address that fsspec knows. Write s3://, gs:// or "
            "the path of a file.",
            code="unknown_address",
        ) from error
    files.invalidate_cache()
    try:
        yield files, path.rstrip("/")
    except (SdgarError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise UsageError(
            f"there is nothing at {place}. Check the bucket and the path.", code="no_such_file"
        ) from error
    except Exception as error:
        if any(kind.__name__ in _FORBIDDEN for kind in type(error).__mro__):
            raise ResourceError(
                f"{place}: there is no permission ({type(error).__name__}). Check the credentials, "
                "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they allow.",
                code="no_permission",
            ) from error
        raise ResourceError(
            f"{place} cannot be reached ({type(error).__name__}). Check the network and the "
            "endpoint, and run the command again: what was copied stays.",
            code="unreachable",
        ) from error
