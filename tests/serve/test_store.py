from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pytest

import sdgar

from .conftest import Client


def items_of(found: dict[str, Any]) -> list[Any]:
    return [one["item"] for one in found["items"]]


def ask(client: Client, *users: Any, k: int = 5, **more: Any) -> list[dict[str, Any]]:
    answer: dict[str, Any] = client.post("/v1/recommend", users=list(users), k=k, **more)
    return answer["lists"]


def feedback(client: Client, *events: dict[str, Any], **more: Any) -> dict[str, int]:
    answer = client("POST", "/v1/feedback", {"events": list(events)}, **more)
    assert answer.status_code == 202, answer.text
    result: dict[str, int] = answer.json()
    return result


def test_a_new_user_is_folded_in_at_once(stored, model):
    items = model.items.values[[2, 7, 11]].tolist()
    assert ask(stored, "new one")[0]["basis"] == "popular"
    feedback(stored, *({"user": "new one", "item": item} for item in items))
    found = ask(stored, "new one")[0]
    assert found["basis"] == "feedback"
    own = model.recommend_lists(history=items, k=5).dicts()[0]
    assert items_of(found) == items_of(own)


def test_feedback_of_a_known_user_changes_the_list(stored, model):
    user = model.users.values.tolist()[3]
    before = ask(stored, user)[0]
    first = items_of(before)[0]
    feedback(stored, {"user": user, "item": first, "kind": "buy"})
    after = ask(stored, user)[0]
    assert after["basis"] == "feedback"
    assert first not in items_of(after)
    own = [*model.items.at(model.history.of(3)).tolist(), first]
    assert items_of(after) == items_of(model.recommend_lists(history=own, k=5).dicts()[0])
    seen = ask(stored, user, exclude_seen=False, k=40)[0]
    assert first in items_of(seen)


def test_what_is_disliked_is_never_listed(stored, model):
    user = model.users.values.tolist()[3]
    first, second = items_of(ask(stored, user)[0])[:2]
    feedback(stored, {"user": user, "item": first, "kind": "dislike"},
             {"user": user, "item": second, "weight": -1.0})  # fmt: skip
    found = ask(stored, user, k=40, exclude_seen=False)[0]
    assert not {first, second} & set(items_of(found))
    feedback(stored, {"user": user, "item": first})
    assert first in items_of(ask(stored, user, k=40, exclude_seen=False)[0])


def test_an_event_with_a_key_is_stored_once(stored):
    events = [{"user": "a", "item": "b", "key": "k1"}, {"user": "a", "item": "c"}]
    assert feedback(stored, *events) == {"accepted": 2, "repeated": 0}
    assert feedback(stored, *events) == {"accepted": 1, "repeated": 1}
    header = {"headers": {"Idempotency-Key": "request-7"}}
    assert feedback(stored, *events[1:], **header) == {"accepted": 1, "repeated": 0}
    assert feedback(stored, *events[1:], **header) == {"accepted": 0, "repeated": 1}
    assert stored.get("/v1/users/a")["events"] == 4


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_two_servers_on_one_store_know_the_same(serving, model_folder, request, store):
    store = True if store == "sqlite" else request.getfixturevalue("postgresql_url")
    here, there = (serving(model_folder, store=store, follow=0.01) for _ in range(2))
    item = sdgar.load(model_folder).items.values.tolist()[5]
    assert ask(there, "guest")[0]["basis"] == "popular"
    feedback(here, {"user": "guest", "item": item})
    there.state.background.start()
    try:
        until = time.monotonic() + 20
        while ask(there, "guest")[0]["basis"] != "feedback":
            assert time.monotonic() < until
    finally:
        there.state.background.stop()
    assert ask(there, "guest")[0]["items"] == ask(here, "guest")[0]["items"]
    assert here("PUT", f"/v1/items/{item}", {"hidden": True}).status_code == 200
    assert there.state.database is not None
    there.state.service.catalogue.refresh()
    assert item not in items_of(ask(there, "nobody", k=40)[0])


def test_entries_are_kept_shown_and_forgotten(stored, model):
    user, item = model.users.values.tolist()[0], model.items.values.tolist()[0]
    entry = {
        "name": "A <b>film</b>", "picture": "https://example.org/a.png", "categories": ["drama"],
        "features": {"year": 1999.0, "maker": "acme"}, "hidden": False,
    }  # fmt: skip
    put = stored("PUT", f"/v1/items/{item}", entry)
    assert put.status_code == 200
    assert put.json() == {"id": item, **entry, "known": True, "events": 0}
    assert stored.get(f"/v1/items/{item}") == put.json()
    listed = ask(stored, user, k=40, exclude_seen=False, details=True)[0]["items"]
    own = next(one for one in listed if one["item"] == item)
    assert (own["name"], own["categories"]) == (entry["name"], ["drama"])
    assert stored.get("/v1/items", query="film")["found"][0]["id"] == item
    assert stored.get("/v1/categories")["categories"] == [{"name": "drama", "items": 1}]
    assert stored.get("/v1/popular", category="drama")["items"][0]["item"] == item
    assert stored.get("/v1/latest")["items"][0]["item"] == item
    assert stored("DELETE", f"/v1/items/{item}").status_code == 204
    gone = stored("DELETE", f"/v1/items/{item}")
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_item")
    assert stored.get(f"/v1/items/{item}")["name"] is None


@pytest.mark.parametrize("own", ["a/b", "ä ö", "x%2Fy", "q?r#s", "' OR 1=1 --", "\N{PILE OF POO}"])
def test_any_id_can_be_described(stored, own):
    path = f"/v1/users/{quote(own, safe='')}"
    assert stored("PUT", path, {"name": "someone"}).json()["id"] == own
    assert stored.get(path)["name"] == "someone"


def test_a_hidden_item_is_in_no_list_and_categories_can_be_left_out(stored, model):
    user = model.users.values.tolist()[0]
    first = items_of(ask(stored, user)[0])[0]
    assert stored("PUT", f"/v1/items/{first}", {"hidden": True}).status_code == 200
    history = {"items": model.items.values[[1, 3]].tolist()}
    for found in (
        ask(stored, user, k=40, exclude_seen=False)[0],
        ask(stored, "nobody", k=40)[0],
        stored.post("/v1/recommend", histories=[history], k=40)["lists"][0],
        stored.get("/v1/popular", k=40),
    ):
        assert first not in items_of(found)
    out = items_of(ask(stored, user, k=10)[0])[:4]
    for item in out:
        stored("PUT", f"/v1/items/{item}", {"categories": ["news", "x"]})
    found = items_of(ask(stored, user, k=40, exclude_categories=["news"])[0])
    assert not {first, *out} & set(found)
    assert len(found) > 10
    other = next(item for item in model.items.values.tolist() if item != first)
    similar = stored.post("/v1/similar", items=[other], k=39)["lists"][0]["similar"]
    assert first not in [one["item"] for one in similar]
    assert len(similar) == 38


def test_rules_act_on_every_list(serving, model_folder, model, tmp_path):
    rules = tmp_path / "rules.toml"
    user = model.users.values.tolist()[0]
    plain = items_of(ask(serving(model_folder), user, k=10)[0])
    blocked, pinned = plain[0], plain[-1]
    text = f"[[block]]\nitems = [{blocked!r}]\n\n[[pin]]\nitems = [{pinned!r}]\nat = 1\n"
    rules.write_text(text.replace("'", '"'))
    client = serving(model_folder, rules=rules)
    found = ask(client, user, k=10)[0]
    assert items_of(found)[0] == pinned
    assert "pinned" in found["items"][0]["rules"][0]
    assert blocked not in items_of(found)
    assert all(isinstance(one["score"], float) for one in found["items"])


def test_the_history_of_a_user_grows(stored, model):
    user = model.users.values.tolist()[2]
    own = model.items.at(model.history.of(2)).tolist()
    before = stored.get("/v1/history", user=user, limit=1000)
    assert (items_of(before), before["total"], before["known"]) == (own, len(own), True)
    new = next(item for item in model.items.values.tolist() if item not in own)
    feedback(stored, {"user": user, "item": new}, {"user": user, "item": own[0], "kind": "dislike"})
    after = stored.get("/v1/history", user=user, limit=1000)
    assert items_of(after) == [*own[1:], new]
    assert after["items"][-1]["from"] == "feedback"
    nobody = stored.get("/v1/history", user="nobody")
    assert (nobody["items"], nobody["known"]) == ([], False)


def test_impressions_are_logged_with_model_and_variant(stored, model):
    user = model.users.values.tolist()[0]
    answer = stored.post("/v1/recommend", users=[user], k=3)
    stored.state.service.impressions.flush()
    assert stored.state.database is not None
    first = answer["lists"][0]["items"][0]["item"]
    feedback(stored, {"user": user, "item": first, "kind": "buy", "request": answer["request"]})
    rate = stored.state.database.rates("buy", 3600)["main"]
    assert (rate.users, rate.converted_users, rate.requests) == (1, 1, 1)


def test_without_a_store_nothing_is_kept(client):
    for method, path, body in (
        ("POST", "/v1/feedback", {"events": [{"user": "a", "item": "b"}]}),
        ("PUT", "/v1/items/a", {"name": "x"}),
        ("DELETE", "/v1/items/a", None),
    ):
        answer = client(method, path, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "no_store")


def test_the_service_reports_its_state(stored, model):
    user = model.users.values.tolist()[0]
    ask(stored, user)
    feedback(stored, {"user": "a", "item": "b"})
    found = stored.get("/v1/service")
    assert found["requests"]["total"] == 2
    assert sum(found["requests"]["per_minute"]) == 2
    assert found["latency_ms"]["p99"] >= found["latency_ms"]["p50"] > 0
    assert sum(found["feedback_per_hour"]) == 1
    numbers = stored("GET", "/metrics").text
    assert 'sdgar_requests_total{route="/v1/recommend",status="200"} 1.0' in numbers
    assert "sdgar_feedback_events_total 1.0" in numbers
    for _ in range(2):
        ask(stored, user, k=4, details=True)
    numbers = stored("GET", "/metrics").text
    assert "sdgar_entries_read 4.0" in numbers
    assert "sdgar_entries_kept 4.0" in numbers
