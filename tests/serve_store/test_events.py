"""Events: stored once, in order, all or none, whatever their texts."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import text

from sdgar.errors import DataError, UsageError
from sdgar.serve.store import AddedEvents, Database, Event
from sdgar.serve.store.connections import EVENTS_LOCK

HOSTILE = (
    "it's", 'say "x"', "100%", "a_b", "\\", "; DROP TABLE events; --", "𝕏 ünï ☃", "\u202e", "null",
    "a" * 256, "ä" * 128, " ", "\n\t", ":name", "%s", "{}", "\x7f",
)  # fmt: skip


def pairs(store: Database) -> list[tuple[str, str]]:
    return [(event.user, event.item) for event in store.events_after(0)[0]]


def test_events_come_back_as_they_went_in(store):
    event = Event("ann", "7", "buy", 1_700_000_000.25, 2.5, "k", "r")
    before = time.time()
    assert store.add_events([event]) == AddedEvents(1, 0)
    (found,), last = store.events_after(0)
    assert last == found.number == store.last_number() == 1
    assert (found.user, found.item, found.kind) == ("ann", "7", "buy")
    assert (found.time, found.weight, found.key, found.request) == (1_700_000_000.25, 2.5, "k", "r")
    assert before - 1 < found.received < time.time() + 1


def test_an_event_without_a_time_happened_when_it_arrived(store):
    store.add_events([Event("ann", "7")])
    (found,), _ = store.events_after(0)
    assert (found.kind, found.time) == ("event", found.received)
    assert found.weight is found.key is None


def test_an_integer_is_an_id_in_its_plain_spelling(store):
    store.add_events([Event(17, -3)])  # type: ignore[arg-type]
    assert pairs(store) == [("17", "-3")]
    assert store.events_of(17)[0].item == "-3"  # type: ignore[arg-type]


def test_a_key_is_stored_once_within_a_request_and_later_by_any_server(store, url):
    for second in (Event("a", "2", key="x"), Event("a", "4")):
        assert store.add_events([Event("a", "1", key="x"), second]) == AddedEvents(1, 1)
    assert store.add_events([Event("a", "4")]) == AddedEvents(1, 0)
    assert store.add_events([]) == AddedEvents(0, 0)
    with Database.open(url) as other:
        assert other.add_events([Event("a", "5", key="x")]) == AddedEvents(0, 1)
        assert pairs(other) == [("a", "1"), ("a", "4"), ("a", "4")]


def test_events_are_followed_in_pieces(store):
    store.add_events([Event("a", str(n)) for n in range(25)])
    seen, last = [], 0
    while True:
        some, last = store.events_after(last, 10)
        if not some:
            break
        seen += [event.item for event in some]
    assert seen == [str(n) for n in range(25)]
    assert store.events_after(last, 10) == ([], last)
    assert store.events_after(10**12, 10) == ([], 10**12)


def test_the_events_of_a_user_are_by_time_with_the_newest_last(store):
    store.add_events([Event("a", str(n), time=t) for n, t in enumerate([30.0, 10.0, 20.0, 20.0])])
    store.add_events([Event("b", "x", time=15.0)])
    assert [event.item for event in store.events_of("a", 10)] == ["1", "2", "3", "0"]
    assert [event.item for event in store.events_of("a", 2)] == ["3", "0"]
    assert store.events_of("nobody", 2) == []


def test_counts(store):
    assert (store.count_events(), store.last_number(), store.has_weights()) == (0, 0, False)
    store.add_events([Event("a", "1"), Event("a", "2"), Event("b", "2", weight=0.0)])
    assert store.count_events() == 3
    assert store.count_events("a") == store.count_events(item="2") == 2
    assert store.count_events("x") == store.count_events(item="x") == 0
    assert store.has_weights()
    assert store.events_per_hour(3) == [0, 0, 3]
    assert sum(store.events_per_hour()) == 3


def test_hours_are_counted_from_now(store, monkeypatch):
    now = time.time_ns()
    for hours_ago, n in ((0.5, 1), (1.5, 2), (23.5, 3), (24.5, 4)):
        moment = now - int(hours_ago * 3600e9)
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        store.add_events([Event("a", "1")] * n)
    monkeypatch.setattr(time, "time_ns", lambda: now)
    assert store.events_per_hour(24) == [3, *[0] * 21, 2, 1]


def test_hostile_texts_come_back_as_they_are(store):
    for number, word in enumerate(HOSTILE):
        last = store.last_number()
        assert store.add_events([Event(word, word, word, key=word, request=word)] * 2).accepted == 1
        ((found,), _) = store.events_after(last)
        assert {found.user, found.item, found.kind, found.key, found.request} == {word}
        assert store.events_of(word)[0] == found
        assert store.count_events(item=word) == store.count_events(word) == 1
        assert store.count_events() == number + 1


BAD = (
    (Event("", "1"), "is empty"),
    (Event("a\0b", "1"), "NUL"),
    (Event("a", "b" * 257), "256"),
    (Event("a", "ä" * 129), "256 bytes"),
    (Event("a", "\ud800"), "not valid Unicode"),
    (Event("a", None), "NoneType"),
    (Event(True, "1"), "bool"),
    (Event(1.5, "1"), "float"),
    (Event("a", "1", kind=""), "kind"),
    (Event("a", "1", kind="k" * 257), "256 characters"),
    (Event("a", "1", time=-1.0), "since 1970"),
    (Event("a", "1", time=1e12), "since 1970"),
    (Event("a", "1", time=float("nan")), "finite"),
    (Event("a", "1", weight=float("inf")), "finite"),
    (Event("a", "1", weight="2"), "finite number"),
    (Event("a", "1", key="k\0"), "NUL"),
    (Event("a", "1", request=7), "must be text"),
)


def test_a_bad_event_is_refused_with_all_that_came_with_it(store):
    for event, says in BAD:
        with pytest.raises(DataError, match=says) as caught:
            store.add_events([Event("good", "1"), event])
        assert caught.value.code == "bad_record"
    assert store.count_events() == 0


def test_threads_add_and_follow_without_missing_or_repeating(store):
    threads, each = 6, 30
    done = threading.Event()
    seen: list[int] = []

    def write(name: int) -> None:
        for n in range(each):
            store.add_events([Event(f"u{name}", f"{n}", key=f"{name} {n} {i}") for i in range(2)])

    def follow() -> None:
        last = 0
        while True:
            over = done.is_set()
            some, last = store.events_after(last, 7)
            seen.extend(event.number for event in some)
            if over and not some:
                return

    follower = threading.Thread(target=follow)
    writers = [threading.Thread(target=write, args=(n,)) for n in range(threads)]
    for thread in (follower, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    follower.join()
    everything = [event.number for event in store.events_after(0, 10_000)[0]]
    assert len(everything) == threads * each * 2
    assert seen == everything


def test_no_event_is_missed_although_a_transaction_ends_late(postgresql_url):
    """A writer that took its numbers and is not committed yet holds all later ones back."""
    with Database.open(postgresql_url) as store, Database.open(postgresql_url) as other:
        store.add_events([Event("a", "before")])
        added = threading.Thread(target=lambda: other.add_events([Event("b", "fast")]))
        with store._writing() as slow:
            store._hold_lock(slow, EVENTS_LOCK)
            slow.execute(text("INSERT INTO events (user_id, item_id, kind, time, received) "
                              "VALUES ('a', 'slow', 'event', 0, 0)"))  # fmt: skip
            added.start()
            added.join(0.5)
            assert added.is_alive()  # it waits for its turn
            some, last = store.events_after(0)
            assert [event.item for event in some] == ["before"]
        added.join()
        assert [event.item for event in store.events_after(last)[0]] == ["slow", "fast"]


def test_what_is_only_read_is_not_written(url):
    Database.open(url).close()
    with Database.open(url, read_only=True) as store:
        assert store.count_events() == 0
        with pytest.raises(UsageError, match="reading only") as caught:
            store.add_events([Event("a", "1")])
        assert caught.value.code == "read_only_store"
        store._read_only = False  # the database itself refuses writes too
        with pytest.raises(UsageError, match="cannot be used") as caught:
            store.add_events([Event("a", "1")])
        assert caught.value.code == "read_only_store"
