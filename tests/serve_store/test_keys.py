"""Keys, impressions with their rates, and the model that servers agree on."""

from __future__ import annotations

import hashlib
import re
import time

import pytest

from sdgar.errors import DataError, UsageError
from sdgar.serve.store import Event, Impression, Rate


def test_a_key_is_shown_once_and_kept_as_a_hash(store, url):
    end = time.time() + 60
    secret = store.add_key("web", "write", end)
    assert re.fullmatch(r"sdgar_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", secret)
    (key,) = store.keys()
    assert key.id == secret.split("_")[1]
    assert key.hash == hashlib.sha256(secret.encode()).hexdigest()
    assert (key.name, key.role, key.revoked) == ("web", "write", False)
    assert abs(key.expires - end) < 1e-3
    assert secret.split("_", 2)[2] not in repr(key)


def test_keys_are_listed_in_their_order_and_revoked(store):
    ids = [store.add_key(f"k{n}", "read").split("_")[1] for n in range(3)]
    kept = store.keys()
    assert [key.id for key in kept] == ids
    assert store.revoke_key(ids[1]) is True
    assert store.revoke_key("nothing") is False
    kept = store.keys()
    assert [key.revoked for key in kept] == [False, True, False]
    assert store.keys()[0].expires is None


def test_bad_keys_are_refused(store):
    with pytest.raises(UsageError, match="Known: admin, read, write"):
        store.add_key("x", "root")
    with pytest.raises(DataError):
        store.add_key("", "read")
    with pytest.raises(DataError):
        store.add_key("x", "read", -5.0)
    assert store.keys() == []


def shown(request, user, variant, *, at=100.0, items=("1", "2")):
    return Impression(request, at, user, items, "v1", variant, "model")


def test_rates_count_what_follows_within_the_window(store):
    store.add_impressions([
        shown("r1", "ann", "A"),
        shown("r2", "bob", "A"),
        shown("r3", "cat", "A"),
        shown("r4", "ann", "A", at=500.0),
        shown("r5", "dan", "B"),
        shown("r6", None, "B"),
        shown("r7", "eve", "B"),
    ])  # fmt: skip
    store.add_events([
        Event("ann", "1", "buy", 150.0),  # follows r1, and not r4, which is later
        Event("bob", "9", "buy", 150.0),  # was not shown
        Event("cat", "1", "view", 150.0),  # another kind
        Event("dan", "1", "buy", 90.0),  # came before
        Event("dan", "2", "buy", 201.0),  # came too late
        Event("who", "9", "buy", 150.0, request="r6"),  # names its request
        Event("ann", "1", "buy", 150.0, request="r7"),  # of another user
    ])  # fmt: skip
    assert store.rates("buy", 100.0) == {
        "A": Rate(3, 1, 4, 1),
        "B": Rate(2, 0, 3, 1),
    }
    assert store.rates("buy", 101.0)["B"] == Rate(2, 1, 3, 2)
    assert store.rates("buy", 100.0, since=400.0) == {"A": Rate(1, 0, 1, 0)}
    assert store.rates("nothing", 100.0)["A"] == Rate(3, 0, 4, 0)


def test_no_impressions_have_no_rates(store):
    store.add_impressions([])
    assert store.rates("buy", 10.0) == {}
    with pytest.raises(DataError):
        store.add_impressions([shown("r", "a\0", "A")])


def test_the_last_wish_counts_and_every_server_reports(store):
    assert store.latest_request() is None
    store.request_model("v1", "runs/a")
    store.request_model("v2", "runs/b")
    wish = store.latest_request()
    assert (wish.version, wish.name, wish.number) == ("v2", "runs/b", 2)
    store.add_report("s2", "v1", "serving")
    store.add_report("s1", "v2", "refused", "it's damaged")
    store.add_report("s2", "v2", "serving")
    assert [(r.server, r.version, r.state, r.reason) for r in store.reports()] == [
        ("s1", "v2", "refused", "it's damaged"), ("s2", "v2", "serving", "")
    ]  # fmt: skip
