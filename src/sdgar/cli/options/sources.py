"""Where events come from: files, or a store by its address, whose password is never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.data.sources import EventSource, source_of
from sdgar.errors import UsageError
from sdgar.serve.store.address import Address, is_address
from sdgar.storage import remote
from sdgar.storage.addresses import is_remote

PATH = "PATH"
"""The word for a file or a store in the help of an option."""


def source(text: str | Path | EventSource) -> Path | EventSource:
    """Understand the name of a file, an address such as s3://…, or a store: sqlite:///store.db."""
    return remote.fetched(text) if is_remote(text) else source_of(text)


def store(text: str | Address) -> Address:
    """Understand the address of a store."""
    if isinstance(text, str) and not is_address(text):
        raise UsageError(
            f"{text!r} is no address of a store. Write sqlite:///{text or 'store.db'} for a file, "
            "or postgresql://USER@HOST/NAME.",
            code="bad_store",
        )
    return Address.of(text)


Files = Annotated[
    list[Any],
    typer.Argument(
        metavar="FILE…",
        parser=source,
        help="Read these files of events, also at addresses such as s3://BUCKET/PATH, or a store: "
        "sqlite:///FILE.db, postgresql://…",
    ),
]
Store = Annotated[
    Any,
    typer.Option(
        "--store",
        metavar="URL",
        parser=store,
        envvar="SDGAR_STORE",
        help="Use this store: sqlite:///FILE.db or postgresql://USER@HOST/NAME; SDGAR_STORE is the "
        "same.",
    ),
]
OfStore = Annotated[
    Any,
    typer.Argument(
        metavar="URL",
        parser=store,
        help="Read this store: sqlite:///FILE.db or postgresql://USER@HOST/NAME.",
    ),
]
