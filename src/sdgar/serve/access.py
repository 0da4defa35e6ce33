"""Who may ask what: API keys with a role, told by a header and kept as hashes."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from sdgar.serve.problems import Refused

ROLES = ("read", "write", "admin")
"""Each role may do what those before it may."""
_NO_KEY = "Give a valid API key: `Authorization: Bearer KEY` or `X-API-Key: KEY`."


class Key(Protocol):
    """What the store knows of a key."""

    @property
    def id(self) -> str:
        """The public part of the key, which names it."""
        ...

    @property
    def role(self) -> str:
        """The role of its holder."""
        ...

    @property
    def hash(self) -> str:
        """The SHA-256 of the secret, in hexadecimal digits."""
        ...

    @property
    def expires(self) -> float | None:
        """The time at which it ends."""
        ...

    @property
    def revoked(self) -> bool:
        """Whether it was taken back."""
        ...


def secret_of(headers: dict[bytes, bytes]) -> str | None:
    """Find the key in the headers of a request; a key in an address is never looked at."""
    bearer = headers.get(b"authorization", b"")
    if bearer[:7].lower() == b"bearer ":
        return bearer[7:].strip().decode("latin-1")
    own = headers.get(b"x-api-key")
    return None if own is None else own.strip().decode("latin-1")


def id_of(secret: str) -> str:
    """Tell the public part of a key, which names it: ``sdgar_ID_SECRET``."""
    parts = secret.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "sdgar" else ""


class Access:
    """Decides by a key whether a request may do what it asks.

    All keys are held in memory, so that no request, valid or not, makes the server wait for the
    store. ``take`` is called every few seconds: a key that is revoked ends within that time.
    """

    def __init__(self, *, needed: bool, clock: Callable[[], float] = time.time) -> None:
        self.needed = needed
        """Whether a key is needed at all; without one, everyone may do everything."""
        self._clock = clock
        self._keys: dict[str, Key] = {}

    def take(self, keys: Iterable[Key]) -> None:
        """Know these keys from now on, and no others."""
        self._keys = {key.id: key for key in keys}

    def allow(self, scope: Any, role: str) -> None:
        """Refuse a request whose key may not do what a role may."""
        if not self.needed:
            return
        secret = secret_of(dict(scope["headers"]))
        held = None if secret is None else self._role(secret)
        if held is None:
            raise Refused(401, _NO_KEY)
        if ROLES.index(held) < ROLES.index(role):
            raise Refused(403, f"This needs a key of the role {role}; this one has {held}.")

    def may(self, scope: Any, role: str) -> bool:
        """Tell whether a request may do what a role may."""
        try:
            self.allow(scope, role)
        except Refused:
            return False
        return True

    def client(self, scope: Any) -> str:
        """Name the client of a request for its rate: by the id of its key, or by its address."""
        secret = secret_of(dict(scope["headers"])) if self.needed else None
        if secret is not None and self._role(secret) is not None:
            return f"key {id_of(secret)}"
        return f"address {(scope.get('client') or ('?',))[0]}"

    def _role(self, secret: str) -> str | None:
        """Tell the role of a valid key."""
        found = self._keys.get(id_of(secret))
        given = hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
        same = hmac.compare_digest(given, "0" * 64 if found is None else found.hash)
        if found is None or not same or found.revoked:
            return None
        return None if found.expires is not None and found.expires <= self._clock() else found.role
