"""API keys: the secret is shown once, and only its hash is stored."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

from sqlalchemy import Row, select, update

from sdgar.errors import unknown_name
from sdgar.serve.store import texts
from sdgar.serve.store.records import ROLES, Key
from sdgar.serve.store.tables import KEYS
from sdgar.serve.store.transactions import Transactions

_ID_BYTES, _SECRET_BYTES = 6, 32


class Keys(Transactions):
    """The part of a store that holds API keys."""

    def add_key(self, name: str, role: str, expires: float | None = None) -> str:
        """Make a key that ends at a time (None: never), and return its secret.

        It reads ``sdgar_ID_SECRET`` and cannot be shown again.
        """
        if role not in ROLES:
            raise unknown_name("role", role, ROLES)
        id = secrets.token_hex(_ID_BYTES)
        secret = f"sdgar_{id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        row = {
            "id": id,
            "name": texts.a_text(name, "name of a key"),
            "role": role,
            "hash": hashlib.sha256(secret.encode()).hexdigest(),
            "created": time.time_ns() // 1000,
            "expires": None if expires is None else texts.microseconds(expires, "end of a key"),
            "revoked": False,
        }
        with self._writing() as connection:
            connection.execute(KEYS.insert().values(row))
        return secret

    def keys(self) -> list[Key]:
        """Return all keys without their secrets, in the order in which they were made."""
        wanted = select(KEYS).order_by(KEYS.c.created, KEYS.c.id)
        with self._reading() as connection:
            return [_key(row) for row in connection.execute(wanted)]

    def find_key(self, id: str) -> Key | None:
        """Return the key of this id; None if there is none."""
        with self._reading() as connection:
            row = connection.execute(select(KEYS).where(KEYS.c.id == texts.sought(id))).first()
        return None if row is None else _key(row)

    def revoke_key(self, id: str) -> bool:
        """Take a key back for good, and tell whether there is one of this id."""
        wanted = update(KEYS).where(KEYS.c.id == texts.sought(id))
        with self._writing() as connection:
            done = connection.execute(wanted.values(revoked=True))
        return bool(done.rowcount)


def _key(row: Row[Any]) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        role=row.role,
        hash=row.hash,
        created=row.created / texts.MICROSECONDS,
        expires=None if row.expires is None else row.expires / texts.MICROSECONDS,
        revoked=bool(row.revoked),
    )
