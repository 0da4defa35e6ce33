"""The address of a store, which may hold a password: only its safe spelling is ever shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sdgar.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sdgar.data.read_options import ReadOptions
    from sdgar.serve.event_tables import StoredEvents

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LAST = re.compile(r"#([0-9]{1,18})")
_SECRET = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)
_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
_KINDS = "sqlite:///FILE.db (a file) and postgresql://USER@HOST/NAME (a server)"


@dataclass(frozen=True, repr=False)
class Address:
    """The address of a store: a SQLite file, or a database of a PostgreSQL server."""

    url: str = field(repr=False)
    """The original address, including any password."""
    path: Path | None
    """The file of a SQLite store; None for a server."""
    last: int | None = None
    """The number of the last event to read (``#480`` at the end of the address), or None."""

    @classmethod
    def of(cls, given: str | Address) -> Address:
        """Parse an address; raise if it names neither a file nor a PostgreSQL server."""
        if isinstance(given, Address):
            return given
        given, mark, number = given.rpartition("#")
        if not _LAST.fullmatch(mark + number):
            given, number = given + mark + number, ""
        last = int(number) if number else None
        found = _SCHEME.fullmatch(given)
        if found is None:
            raise UsageError(
                f"{given!r} is not the address of a store. Write sqlite:///{given or 'store.db'} "
                "for a file, or postgresql://USER@HOST/NAME.",
                code="bad_store",
            )
        scheme, rest = found[1].lower(), found[2]
        if scheme in ("sqlite", "sqlite+pysqlite"):
            return cls(given, _file(given, rest), last)
        if scheme in _POSTGRESQL:
            _require_escaped(given, rest)
            return cls(given, None, last)
        raise UsageError(
            f"{_hidden(given)} is not a supported store: {found[1]}:// is neither of {_KINDS}.",
            code="unknown_store",
        )

    def __str__(self) -> str:
        """Return the address without its password."""
        return _hidden(self.url)

    __repr__ = __str__

    @property
    def name(self) -> str:
        """The name of the store in messages."""
        return str(self) if self.path is None else self.path.name

    @property
    def password(self) -> str | None:
        """The password before the host of the address, or None."""
        rest = self.url.partition("://")[2]
        if self.path is not None or "@" not in rest:
            return None
        return rest.rpartition("@")[0].partition(":")[2] or None

    def open(self, options: ReadOptions) -> AbstractContextManager[StoredEvents]:
        """Open the events of the store for readers."""
        from sdgar.serve.event_tables import stored_events

        return stored_events(self, options)

    def up_to_now(self) -> Address:
        """Return the address of the events that the store has at this moment."""
        from sdgar.serve.store import Database

        if self.last is not None:
            return self
        with Database.open(self, read_only=True) as store:
            return replace(self, last=store.last_number())

    def absolute(self) -> str:
        """Return an address that is valid in any folder, without a password.

        libpq then takes the password from PGPASSWORD or from the file .pgpass.
        """
        end = "" if self.last is None else f"#{self.last}"
        if self.path is not None:
            return f"sqlite:///{self.path.absolute()}{end}"
        bare = _SECRET.sub(lambda found: found[1][0], self.url)
        return _with_user(bare, "").replace("?&", "?").replace("&&", "&").rstrip("?&") + end


def _file(url: str, rest: str) -> Path:
    """Return the file of a SQLite store."""
    text = rest.removeprefix("/")
    if not rest.startswith("/") and rest:
        raise UsageError(
            f"{url} lacks a slash: write sqlite:///{rest} for a file in this folder, or "
            "sqlite:////… with four for one that begins at the root.",
            code="bad_store",
        )
    if text in ("", ":memory:", ":memory"):
        raise UsageError(
            f"{url} would be lost when the process ends. Name a file: sqlite:///store.db.",
            code="bad_store",
        )
    if "?" in text or "\0" in text:
        raise UsageError(
            f"{url!r} is not a valid store: the name of its file must not contain a question mark "
            "or a NUL character. Write sqlite:///store.db, without options.",
            code="bad_store",
        )
    return Path(text)


def _require_escaped(url: str, rest: str) -> None:
    """Raise if a password contains ``@`` or ``/``, because a part of it would be shown."""
    user = rest.partition("?")[0].rpartition("@")[0]
    if "@" in user or "/" in user:
        raise UsageError(
            f"the address {_hidden(url)} cannot be parsed: write %40 for @ and %2F for / in a "
            "user or password.",
            code="bad_store",
        )


def _hidden(url: str) -> str:
    return _with_user(_SECRET.sub(r"\1***", url), ":***")


def _with_user(url: str, instead: str) -> str:
    """Return an address whose password is replaced by ``instead``."""
    scheme, _, rest = url.partition("://")
    user, at, where = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme}://{name}{instead if colon else ''}{at}{where}"
