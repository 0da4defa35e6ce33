from __future__ import annotations

from sdgar.serve.activity import RecentEvents, RecentFeedback
from sdgar.serve.store import Event
from sdgar.serve.swap import position_of


def test_the_newest_word_on_an_item_counts():
    since = RecentFeedback().after(
        [Event("u", "a"), Event("u", "b", "dislike"), Event("u", "a", "skip"), Event("u", "b")]
    )
    assert since == RecentFeedback(liked=("b",), disliked=("a",))
    assert since.after([Event("u", "c", "buy", weight=-1.0)]).disliked == ("a", "c")


def test_events_may_come_twice():
    events = [Event("u", "a"), Event("v", "b"), Event("u", "c")]
    recent = RecentEvents(lambda user: [])
    recent.add(events[:1])
    recent.add(events)
    assert recent.of("u") == RecentFeedback(liked=("a", "c"))
    assert recent.of("nobody") is None


def test_what_is_forgotten_is_read_again(monkeypatch):
    monkeypatch.setattr("sdgar.serve.activity._MOST_USERS", 2)
    store = {f"u{n}": [Event(f"u{n}", "a")] for n in range(5)}
    read: list[str] = []

    def look(user: str) -> list[Event]:
        read.append(user)
        return store.get(user, [])

    recent = RecentEvents(look)
    recent.add([event for events in store.values() for event in events])
    assert all(recent.of(user) == RecentFeedback(liked=("a",)) for user in store)
    assert read == ["u0", "u1", "u2"]
    assert recent.of("nobody") is None


def test_places_of_users_are_spread_evenly():
    places = [position_of(f"user {n}") for n in range(4000)]
    assert all(0 <= place < 1 for place in places)
    for tenth in range(10):
        share = sum(tenth <= 10 * place < tenth + 1 for place in places) / len(places)
        assert abs(share - 0.1) < 0.02  # four standard deviations
