from __future__ import annotations

import hashlib
from typing import Any

import pytest

from sdgar.errors import UsageError
from sdgar.serve.access import ROLES, Access
from sdgar.serve.problems import Refused
from sdgar.serve.store import Key


def made(id: str, role: str, expires: float | None = None, **more: Any) -> tuple[str, Key]:
    secret = f"sdgar_{id}_{'s' * 43}"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return secret, Key(id, "web", role, digest, 1.0, expires, **more)


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"headers": list(headers), "client": ("10.0.0.9", 1)}


def bearer(secret: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {secret}".encode()


@pytest.mark.parametrize("held", ROLES)
@pytest.mark.parametrize("needed", ROLES)
def test_a_role_may_do_what_those_before_it_may(held, needed):
    secret, key = made("a1", held)
    access = Access(needed=True)
    access.update([key])
    if ROLES.index(held) >= ROLES.index(needed):
        access.allow(scope(bearer(secret)), needed)
        access.allow(scope((b"x-api-key", secret.encode())), needed)
    else:
        with pytest.raises(Refused) as refused:
            access.allow(scope(bearer(secret)), needed)
        assert refused.value.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [bearer("")],
        [bearer("sdgar_a1_wrong")],
        [bearer("sdgar_zz_" + "s" * 43)],
        [bearer("a1")],
        [bearer("other_a1_" + "s" * 43)],
        [(b"authorization", b"Basic abc")],
        [bearer("sdgar_a1_" + "s" * 42 + "\xff")],
    ],
)
def test_everyone_else_gets_the_same_answer(headers):
    _, key = made("a1", "admin")
    access = Access(needed=True)
    access.update([key])
    with pytest.raises(Refused) as refused:
        access.allow(scope(*headers), "read")
    assert (refused.value.status, refused.value.code) == (401, "unauthorized")
    assert access.client(scope(*headers)) == "address 10.0.0.9"


def test_revoked_and_expired_keys_end():
    now = [100.0]
    access = Access(needed=True, clock=lambda: now[0])
    soon, ending = made("b2", "read", expires=150.0)
    gone, revoked = made("c3", "read", revoked=True)
    access.update([ending, revoked])
    access.allow(scope(bearer(soon)), "read")
    assert access.client(scope(bearer(soon))) == "key b2"
    with pytest.raises(Refused):
        access.allow(scope(bearer(gone)), "read")
    now[0] = 150.0
    with pytest.raises(Refused):
        access.allow(scope(bearer(soon)), "read")


def test_every_route_needs_a_role_but_health(serving, model_folder):
    client = serving(model_folder, store=True)
    assert client.state.database is not None
    secret = client.state.database.add_key("reader", "read")
    client.state.access.update(client.state.database.keys())
    client.state.access.needed = True
    for path, methods in client.get("/v1/openapi.json")["paths"].items():
        for method in methods:
            answer = client(
                method.upper(), path.replace("{id}", "1"), {} if method != "get" else None
            )
            open_to_all = path in ("/livez", "/readyz")
            assert (answer.status_code == 401) != open_to_all, (method, path, answer.status_code)
    client.headers = {"Authorization": f"Bearer {secret}"}
    user = client.state.service.models.current.first.snapshot.model.users.values.tolist()[0]
    assert client("POST", "/v1/recommend", {"users": [user]}).status_code == 200
    denied = client("POST", "/v1/feedback", {"events": [{"user": "a", "item": "b"}]})
    assert (denied.status_code, denied.json()["code"]) == (403, "forbidden")
    assert client("POST", "/v1/admin/reload", {}).status_code == 403
    assert secret not in denied.text


def test_a_server_that_others_reach_needs_keys(serving, model_folder):
    with pytest.raises(UsageError) as refused:
        serving(model_folder, host="0.0.0.0")
    assert refused.value.code == "no_keys"
    serving(model_folder, host="0.0.0.0", keys="never")
    with pytest.raises(UsageError):
        serving(model_folder, keys="always")
