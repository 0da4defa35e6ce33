from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import sdgar


def items_of(one: dict[str, Any], name: str = "items") -> list[Any]:
    return [entry["item"] for entry in one[name]]


@pytest.mark.parametrize("k", [1, 10, 40, 45])
def test_the_answer_is_that_of_the_library(client, model, k):
    users = model.users.values.tolist()
    served = client.post("/v1/recommend", users=users, k=k)
    own = model.recommend_lists(users, k=k).dicts()
    for here, there in zip(served["lists"], own, strict=True):
        assert here["user"] == there["user"]
        assert items_of(here) == items_of(there)
        scores, wanted = ([entry["score"] for entry in one["items"]] for one in (here, there))
        assert scores == pytest.approx(wanted, 1e-5)
        assert here["short"] == there["short"]
        assert here["basis"] == "model"
        assert here["model"] == model.version != ""


def test_a_history_gets_what_the_library_gives(client, model):
    histories = [model.items.values[[1, 5, 9]].tolist(), model.items.values[[3]].tolist()]
    served = client.post("/v1/recommend", histories=[{"items": h} for h in histories], k=7)
    for here, history in zip(served["lists"], histories, strict=True):
        there = model.recommend_lists(history=history, k=7).dicts()[0]
        assert items_of(here) == items_of(there)
        assert here["basis"] == "history"
        assert here["user"] is None
    named = client.post("/v1/recommend", histories=[{"id": "x", "items": histories[0]}], k=2)
    assert named["lists"][0]["user"] == "x"


def test_many_requests_at_once_get_what_each_gets_alone(client, model):
    users = model.users.values.tolist()
    bodies = [{"users": [user], "k": 3 + at % 3} for at, user in enumerate(users)]
    together = client.all([("POST", "/v1/recommend", body, {}) for body in bodies])
    for body, answer in zip(bodies, together, strict=True):
        (alone,) = client.post("/v1/recommend", **body)["lists"]
        assert items_of(answer.json()["lists"][0]) == items_of(alone)


def test_an_unknown_id_fails_nobody(client, model):
    known = model.users.values.tolist()[0]
    queried = ["nobody", known, "else", known]
    found = client.post("/v1/recommend", users=queried, k=3, exclude=["what"])
    assert [one["user"] for one in found["lists"]] == queried
    assert [one["basis"] for one in found["lists"]] == ["popular", "model"] * 2
    assert found["lists"][1]["items"] == found["lists"][3]["items"]
    assert found["unknown"] == {"users": ["nobody", "else"], "items": ["what"]}
    counts = [one["score"] for one in found["lists"][0]["items"]]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == 3
    popular = client.get("/v1/popular", k=3)["items"]
    assert [(one["rank"], one["score"]) for one in popular] == [*enumerate(counts, 1)]


def test_items_can_be_chosen_from_and_left_out(client, model):
    user, items = model.users.values.tolist()[2], model.items.values.tolist()
    allowed, out = items[:20], items[:5]
    found = client.post("/v1/recommend", users=[user], k=40, items=allowed, exclude=out)
    own = model.recommend_lists([user], k=40, items=allowed, exclude=out).dicts()[0]
    assert items_of(found["lists"][0]) == items_of(own)
    assert found["lists"][0]["short"]


def test_reasons_name_items_of_the_history(client, model):
    user = model.users.values.tolist()[1]
    own = set(model.items.at(model.history.of(1)).tolist())
    found = client.post("/v1/recommend", users=[user], k=4, reasons=2)["lists"][0]
    for entry in found["items"]:
        assert len(entry["because"]) == 2
        assert {one["item"] for one in entry["because"]} <= own
        for one in entry["because"]:
            assert one["share"] == pytest.approx(one["by_weights"] + one["by_vectors"])


def test_an_explanation_adds_up(client, model):
    user, items = model.users.values.tolist()[1], model.items.values.tolist()[:3]
    found = client.post("/v1/explain", user=user, items=items, reasons=3)
    assert [one["item"] for one in found["items"]] == items
    for one in found["items"]:
        total = sum(reason["share"] for reason in one["because"]) + one["rest"]
        assert total == pytest.approx(one["score"])
    best = client.post("/v1/explain", user=user, k=3)["items"]
    listed = client.post("/v1/recommend", users=[user], k=3)["lists"][0]
    assert [one["item"] for one in best] == items_of(listed)
    history = client.post("/v1/explain", history=items, k=2)
    assert history["basis"] == "history"
    assert len(history["items"]) == 2


def test_similar_items_are_those_of_the_library(client, model):
    items = model.items.values.tolist()[:2]
    found = client.post("/v1/similar", items=[items[0], "what", items[1]], k=4)
    assert found["by"] == "vectors"
    assert [one["basis"] for one in found["lists"]] == ["model", "unknown", "model"]
    own = model.similar_lists("item", items, 4).dicts()
    for here, there in zip([found["lists"][0], found["lists"][2]], own, strict=True):
        assert items_of(here, "similar") == items_of(there)
    weights = client.post("/v1/similar", items=items, k=4, by="weights")
    assert weights["by"] == "weights"


def test_options_change_a_list_and_leave_notes(client, model):
    user = model.users.values.tolist()[0]
    plain, varied = (
        client.post("/v1/recommend", users=[user], k=10, **options)["lists"][0]
        for options in ({}, {"diversity": 0.9, "popularity": -0.9})
    )
    assert items_of(varied) != items_of(plain)
    assert any(entry.get("rules") for entry in varied["items"])
    assert len(set(items_of(varied))) == 10


def test_contexts_of_several_fields(serving, tmp_path, data):
    users = [f"u{n}" for n in data.users_E.tolist()]
    part = ["am" if n % 2 else "pm" for n in range(len(users))]
    frame = {"user": users, "item": data.items_E.tolist(), "part": part}
    both = sdgar.read(pl.DataFrame(frame), context=("user", "part"))
    sdgar.BPR(dim=4, epochs=1).fit(both).save(tmp_path / "fields")
    client = serving(tmp_path / "fields")
    requests = [{"user": users[0], "part": "am"}, {"user": "nobody", "part": "am"}]
    found = client.post("/v1/recommend", contexts=requests, k=3)["lists"]
    assert [one["basis"] for one in found] == ["model", "popular"]
    own = sdgar.load(tmp_path / "fields").recommend_lists([requests[0]], k=3).dicts()[0]
    assert items_of(found[0]) == items_of(own)
    with_diversity = client("POST", "/v1/recommend", {"contexts": requests, "diversity": 0.5})
    assert (with_diversity.status_code, with_diversity.json()["code"]) == (409, "not_for_contexts")
    wrong = client("POST", "/v1/recommend", {"contexts": [{"user": users[0]}]})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "bad_context")


def test_variants_are_stable_and_can_be_chosen(serving, model_folder, model, other_folder):
    models = {"main": (str(model_folder), 0.5), "other": (str(other_folder), 0.5)}
    client = serving(model_folder, models=models)
    users = model.users.values.tolist()
    first = client.post("/v1/recommend", users=users, k=3)["lists"]
    again = client.post("/v1/recommend", users=users[::-1], k=3)["lists"][::-1]
    assert [one["variant"] for one in first] == [one["variant"] for one in again]
    assert {one["variant"] for one in first} == {"main", "other"}
    versions = {one["variant"]: one["model"] for one in first}
    assert versions["main"] != versions["other"]
    wanted = client.post("/v1/recommend", users=users[:5], k=3, variant="other")["lists"]
    assert {one["variant"] for one in wanted} == {"other"}
    unknown = client("POST", "/v1/recommend", {"users": users[:1], "variant": "third"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_variant")


def test_the_model_is_described(client):
    found = client.get("/v1/model")
    assert found["system"] == "quick"
    assert found["data"]["users"] == 60
    assert found["abilities"]["fold_in"]
    assert found["abilities"]["reasons"]
    assert found["index"] == {"kind": "exact", "recall": 1.0}
    assert 0 <= found["concentration"]["gini_of_data"] <= 1
    assert 0 < found["concentration"]["coverage"] <= 1


def test_a_bug_is_reported_without_its_secrets(client, monkeypatch, caplog):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(client.state.service, "_lists", broken)
    answer = client("POST", "/v1/recommend", {"users": [1]})
    assert (answer.status_code, answer.json()["code"]) == (500, "bug")
    assert "secret" not in answer.text
    assert "a request failed by a bug" in caplog.text


def test_items_without_events_are_marked_in_lists(serving, data, tmp_path):
    kind = [["red", "blue"][n % 2] for n in range(len(data.items))]
    ids, new = [*data.items.values.tolist(), 10**9], 10**9
    features = sdgar.Features.from_columns(ids, {"kind": [*kind, "red"]})
    sdgar.Quick(dim=8).fit(data).add_items(features=features).save(tmp_path / "grown")
    client = serving(tmp_path / "grown")
    user, other = data.users.values[0].item(), data.items.values[0].item()
    wanted = {"items": [new, other], "exclude_seen": False}
    (one,) = client.post("/v1/recommend", users=[user], k=2, **wanted)["lists"]
    assert {e["item"]: e.get("cold") for e in one["items"]} == {new: True, other: None}
