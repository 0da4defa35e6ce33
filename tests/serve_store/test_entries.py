"""Entries of items and users: put, found, searched, followed."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sdgar.errors import DataError, UsageError
from sdgar.serve.store import Database, Entry, Event

LAMP = Entry("7", "Lamp", "https://x/7.png", ("home", "light"), {"price": 3.5, "colour": "red"})


def test_an_entry_comes_back_as_it_went_in(store):
    store.put("item", LAMP)
    found = store.get("item", "7")
    assert abs(found.updated - time.time()) < 5
    assert found == replace(LAMP, updated=found.updated)
    assert store.get("user", "7") is None
    assert store.get("item", "8") is None


def test_an_entry_replaces_the_earlier_one_with_its_categories(store):
    store.put("item", LAMP)
    store.put("item", Entry("7", categories=("light", "light", "new"), hidden=True))
    found = store.get("item", "7")
    assert (found.name, found.categories, found.features, found.hidden) == (
        None, ("light", "new"), {}, True
    )  # fmt: skip
    assert store.items_in(["home"]) == []
    assert store.items_in(["new", "light"]) == ["7"]


def test_an_entry_is_deleted_with_its_categories(store):
    store.put("item", LAMP)
    assert store.delete("item", "7") is True
    assert store.delete("item", "7") is False
    assert (store.get("item", "7"), store.items_in(["home"]), store.latest()) == (None, [], [])


def test_many_are_put_and_found_at_once(store):
    assert store.put_all("user", (Entry(str(n), f"u{n}") for n in range(1200))) == 1200
    found = store.entries_of("user", [*map(str, range(1100)), "nobody"])
    assert len(found) == 1100
    assert found["1099"].name == "u1099"
    assert store.entries_of("user", []) == {}
    assert store.put_all("user", [Entry("0", "first"), Entry("0", "second")]) == 2
    assert store.get("user", "0").name == "second"


def test_a_bad_entry_leaves_nothing_of_the_others(store):
    with pytest.raises(DataError, match="item"):
        store.put_all("item", [LAMP, Entry("8", features={"x": float("nan")})])
    assert store.get("item", "7") is None
    assert store.catalogue_version() == 0


BAD = (
    Entry(""), Entry("a\0"), Entry("a" * 257), Entry("a", "n\0"), Entry("a", "n" * 2049),
    Entry("a", picture=7), Entry("a", categories=("",)), Entry("a", categories=("c" * 257,)),
    Entry("a", categories=tuple(map(str, range(101)))), Entry("a", features={"": 1.0}),
    Entry("a", features={"x": None}), Entry("a", features={"x": "\ud800"}),
    Entry("a", features=dict.fromkeys(map(str, range(1001)), 1.0)),
)  # fmt: skip


def test_bad_entries_are_refused(store):
    for entry in BAD:
        with pytest.raises(DataError) as caught:
            store.put("item", entry)
        assert caught.value.code == "bad_record"
    assert store.search("item", "") == []


def test_a_side_is_item_or_user(store):
    with pytest.raises(UsageError, match="Did you mean 'item'"):
        store.get("items", "7")


def names(found: list[Entry]) -> list[str]:
    return [entry.id for entry in found]


def test_search_finds_beginnings_of_ids_and_parts_of_names_in_any_case(store):
    store.put_all("item", [
        Entry("abc", "Lamp"), Entry("ABD", "Table"), Entry("x", "a cab"), Entry("y", "ÉCLAIR"),
        Entry("ab", "z"), Entry("Straße", "n"),
    ])  # fmt: skip
    store.put("user", Entry("abu", "ab"))
    assert names(store.search("item", "ab")) == ["ab", "ABD", "abc", "x"]
    assert names(store.search("item", "AB", limit=2)) == ["ABD", "ab"]
    assert names(store.search("item", "éclair")) == ["y"]
    assert names(store.search("item", "STRASSE")) == ["Straße"]
    assert names(store.search("user", "ab")) == ["abu"]
    assert names(store.search("item", "bc")) == []  # an id is found by its beginning
    assert len(store.search("item", "", limit=100)) == 6


def test_search_puts_an_equal_name_before_longer_ones(store):
    store.put_all("item", [Entry("1", "River 2"), Entry("2", "river"), Entry("3", "A river")])
    assert names(store.search("item", "River")) == ["2", "1", "3"]


def test_search_takes_marks_as_they_are(store):
    store.put("item", Entry("plain", "plain"))
    for mark in ("%", "_", "/", "\\", "'", '"', "*", "[", "?"):
        own = [Entry("1", f"100{mark} x"), Entry(f"{mark}2")]
        store.put_all("item", own)
        assert sorted(names(store.search("item", mark))) == sorted(["1", f"{mark}2"])
        assert names(store.search("item", f"0{mark} ")) == ["1"]
    assert store.search("item", "a\0b") == []


def test_search_within_a_category(store):
    store.put_all("item", [Entry("a1", categories=("x",)), Entry("a2", categories=("y",))])
    assert names(store.search("item", "a", category="y")) == ["a2"]


def test_what_no_store_can_hold_is_not_found(store):
    store.put("item", LAMP)
    for word in ("a\0b", "\ud800", ""):
        assert store.get("item", word) is None
        assert store.entries_of("item", [word, "7"]).keys() == {"7"}
        assert store.delete("user", word) is False
        assert store.search("item", "Lamp", category=word) == []
        assert (store.items_in([word]), store.latest(5, word)) == ([], [])
        assert (store.events_of(word), store.count_events(word)) == ([], 0)
        assert store.count_events(item=word) == 0
        assert store.revoke_key(word) is False
        assert store.rates(word, 1.0) == {}
    assert store.search("item", "a\0b") == store.search("item", "\ud800") == []


def test_hidden_items_and_categories(store):
    store.put_all("item", [
        Entry("1", categories=("x", "y")), Entry("2", categories=("x",)),
        Entry("3", categories=("x", "z"), hidden=True), Entry("4", hidden=True),
    ])  # fmt: skip
    store.put("user", Entry("1", categories=("u",), hidden=True))
    assert store.hidden_items() == ["3", "4"]
    assert store.categories() == {"x": 2, "y": 1}
    assert store.items_in(["x"]) == ["1", "2", "3"]
    assert store.items_in(["u"]) == []


def test_the_latest_items_are_those_first_met_last(store):
    store.add_events([Event("a", "old", time=100.0), Event("a", "mid", time=300.0)])
    store.add_events([Event("a", "old", time=900.0), Event("a", "mid", time=200.0)])
    assert store.latest(5) == [("mid", 200.0), ("old", 100.0)]
    store.put_all("item", [Entry("new", categories=("c",)), Entry("old", categories=("c",))])
    assert [item for item, _ in store.latest(2)] == ["new", "mid"]
    assert [item for item, _ in store.latest(5, "c")] == ["new", "old"]
    store.put("item", Entry("new", hidden=True))
    assert [item for item, _ in store.latest(5)] == ["mid", "old"]
    store.delete("item", "old")
    assert [item for item, _ in store.latest(5)] == ["mid", "old"]  # its events are still there


def test_every_change_has_a_higher_number(store):
    seen = [store.catalogue_version()]
    for change in (
        lambda: store.put("item", Entry("1")),
        lambda: store.put_all("user", [Entry("u"), Entry("v")]),
        lambda: store.delete("user", "u"),
    ):
        change()
        seen.append(store.catalogue_version())
    assert seen == sorted(set(seen))
    assert seen[0] == 0


def test_another_server_sees_the_change(url):
    with Database.open(url) as one, Database.open(url) as other:
        before = other.catalogue_version()
        one.put("item", LAMP)
        assert other.catalogue_version() != before
        assert other.get("item", "7").name == "Lamp"
