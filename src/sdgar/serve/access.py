"""Access by API keys with a role, which are sent in a header and stored as hashes."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from typing import Any

from sdgar.serve.problems import Refused
from sdgar.serve.store import Key
from sdgar.serve.store.records import ROLES

_NO_KEY = "Send a valid API key: `Authorization: Bearer KEY` or `X-API-Key: KEY`."


def secret_of(headers: dict[bytes, bytes]) -> str | None:
    """Return the key in the headers of a request, or None; keys in URLs are never used."""
    bearer = headers.get(b"authorization", b"")
    if bearer[:7].lower() == b"bearer ":
        return bearer[7:].strip().decode("latin-1")
    own = headers.get(b"x-api-key")
    return None if own is None else own.strip().decode("latin-1")


def id_of(secret: str) -> str:
    """Return the public part of a key ``sdgar_ID_SECRET``, or an empty text."""
    parts = secret.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "sdgar" else ""


class Access:
    """Decides by its key whether a request is allowed.

    All keys are in RAM, so that no request, valid or not, makes the server wait for the store.
    ``update`` is called every few seconds: a revoked key ends within that time.
    """

    def __init__(self, *, needed: bool, clock: Callable[[], float] = time.time) -> None:
        self.needed = needed
        """Whether requests need a key; otherwise everything is allowed."""
        self._clock = clock
        self._keys: dict[str, Key] = {}

    def update(self, keys: Iterable[Key]) -> None:
        """Replace all keys."""
        self._keys = {key.id: key for key in keys}

    def allow(self, scope: Any, role: str) -> None:
        """Raise if the key of a request does not have a role."""
        if not self.needed:
            return
        secret = secret_of(dict(scope["headers"]))
        granted = None if secret is None else self._role(secret)
        if granted is None:
            raise Refused(401, _NO_KEY)
        if ROLES.index(granted) < ROLES.index(role):
            raise Refused(403, f"This needs a key with the role {role}; this one has {granted}.")

    def may(self, scope: Any, role: str) -> bool:
        """Return whether the key of a request has a role."""
        try:
            self.allow(scope, role)
        except Refused:
            return False
        return True

    def client(self, scope: Any) -> str:
        """Return the name of a client for its rate: the id of its key, or its address."""
        secret = secret_of(dict(scope["headers"])) if self.needed else None
        if secret is not None and self._role(secret) is not None:
            return f"key {id_of(secret)}"
        return f"address {(scope.get('client') or ('?',))[0]}"

    def _role(self, secret: str) -> str | None:
        """Return the role of a valid key, or None."""
        found = self._keys.get(id_of(secret))
        given = hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
        # An unknown id takes as long as a wrong secret, so that time does not reveal ids.
        same = hmac.compare_digest(given, "0" * 64 if found is None else found.hash)
        if found is None or not same or found.revoked:
            return None
        return None if found.expires is not None and found.expires <= self._clock() else found.role
