"""What the rules promise of every list, whatever the candidates and the rules are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.errors import UsageError
from sdgar.recommend.rules import Facts, Rules

from .reranked import facts_of, reranked

ITEMS = 14
CATEGORIES = ("a", "b", "c")
SOME_ITEMS = st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=3, unique=True)
SOME_CATEGORIES = st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=2, unique=True)
SELECTED = st.one_of(
    SOME_ITEMS.map(lambda items: {"items": items}),
    SOME_CATEGORIES.map(lambda names: {"categories": names}),
    st.sampled_from(["x", "y"]).map(lambda maker: {"where": {"maker": maker}}),
)


@st.composite
def rules(draw) -> dict[str, Any]:
    said: dict[str, Any] = {
        "block": draw(st.lists(SELECTED, max_size=2)),
        "allow": draw(st.lists(SOME_CATEGORIES.map(lambda c: {"categories": c}), max_size=1)),
        "boost": [{**s, "by": 0.5} for s in draw(st.lists(SELECTED, max_size=2))],
        "bury": [{**s, "by": 1} for s in draw(st.lists(SELECTED, max_size=1))],
        "cap": draw(
            st.lists(st.integers(1, 3).map(lambda n: {"at_most": n}), max_size=1)
        ) + draw(st.lists(st.just({"at_most": 2, "by": "maker"}), max_size=1)),
        "pin": [
            {"items": items, "at": at}
            for items, at in draw(st.lists(st.tuples(SOME_ITEMS, st.integers(1, 9)), max_size=2))
        ],
    }  # fmt: skip
    if draw(st.booleans()):
        method = draw(st.sampled_from(["mmr", "dpp"]))
        said["diversity"] = {"strength": draw(st.floats(0, 1)), "method": method}
    if draw(st.booleans()):
        said["calibration"] = {"strength": draw(st.floats(0, 1))}
    if draw(st.booleans()):
        said["exploration"] = {"temperature": draw(st.floats(0.01, 5))}
    return said


@st.composite
def facts(draw) -> Facts:
    entries = {
        number: {
            "categories": draw(st.lists(st.sampled_from(CATEGORIES), max_size=2, unique=True)),
            "maker": draw(st.sampled_from(["x", "y", None])),
        }
        for number in range(draw(st.integers(1, ITEMS)))
    }
    vectors = np.random.default_rng(draw(st.integers(0, 3))).normal(size=(ITEMS, 3))
    return facts_of(entries, item_ID=vectors, popularity_I=np.arange(ITEMS) % 5)


PROBLEM = st.tuples(
    rules(),
    facts(),
    st.lists(
        st.tuples(st.integers(-1, ITEMS - 1), st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 0.5, 2.0])),
        max_size=16,
    ),
    st.integers(1, 10),
    st.fixed_dictionaries(
        {
            "diversity": st.sampled_from([0.0, 0.4]),
            "popularity": st.sampled_from([-1.0, 0.0, 0.7]),
            "exclude_categories": st.sampled_from([(), ("a",)]),
        }
    ),
)


def apply(problem):
    said, known, pairs, k, options = problem
    may = may_be_listed(problem)
    return reranked(
        Rules.of(said), [item for item, _ in pairs], [score for _, score in pairs], k, known,
        options=options, seed=3, history_H=np.array([0, 1, 2]),
        pin_scores={i: 0.25 if i in may and i % 4 < 3 else -np.inf for i in range(ITEMS)},
    )  # fmt: skip


def may_be_listed(problem) -> set[int]:
    said, known, _, _, options = problem

    def meets(which, number):
        if "items" in which:
            return number in which["items"]
        if "categories" in which:
            return bool(set(which["categories"]) & set(known.categories_of(number)))
        return which["where"]["maker"] in known.values_of(number, "maker")

    return {
        number
        for number in range(ITEMS)
        if not any(meets(which, number) for which in said["block"])
        and all(meets(which, number) for which in said["allow"])
        and not set(options["exclude_categories"]) & set(known.categories_of(number))
    }


@settings(max_examples=3 * settings.default.max_examples)
@given(PROBLEM)
def test_nothing_is_blocked_repeated_or_made_up_and_a_list_is_not_too_long(problem):
    said, _, pairs, k, _ = problem
    found = apply(problem)
    listed = found.items_K.tolist()
    given_items = {item for item, score in pairs if item >= 0 and np.isfinite(score)}
    pins = {item for pin in said["pin"] for item in pin["items"]}
    assert len(listed) == len(set(listed)) <= k
    assert len(found.scores_K) == len(found.notes) == len(listed)
    assert set(listed) <= may_be_listed(problem)
    assert set(listed) <= given_items | pins
    best = {item: max(s for i, s in pairs if i == item) for item in given_items}
    for item, score, notes in zip(listed, found.scores_K, found.notes, strict=True):
        assert score == best.get(item, 0.25)
        assert item in given_items or notes[0].startswith("pinned")


@settings(max_examples=3 * settings.default.max_examples)
@given(PROBLEM)
def test_caps_hold_but_for_pins_and_a_list_is_short_only_if_nothing_more_fits(problem):
    said, known, pairs, k, _ = problem
    found = apply(problem)
    listed, notes = found.items_K.tolist(), found.notes
    pinned = {item for item, note in zip(listed, notes, strict=True) if note[:1] == ("pinned",)}
    left = {i for i, s in pairs if i >= 0 and np.isfinite(s)} & may_be_listed(problem)
    left -= set(listed)
    closed: set[int] = set()
    for cap in said["cap"]:
        by = cap.get("by", "category")
        of = {item: set(known.values_of(item, by)) for item in range(ITEMS)}
        total = Counter(value for item in listed for value in of[item])
        by_pins = Counter(value for item in pinned for value in of[item])
        for value, count in total.items():
            assert count <= max(cap["at_most"], by_pins[value])
        full = {value for value, count in total.items() if count >= cap["at_most"]}
        closed |= {item for item in left if of[item] & full}
    if len(listed) < k:
        assert left <= closed


@settings(max_examples=2 * settings.default.max_examples)
@given(PROBLEM)
def test_pins_have_their_places(problem):
    said, known, pairs, k, options = problem
    said = {**said, "pin": [{"items": [5], "at": 2}]}
    found = apply((said, known, pairs, k, options)).items_K.tolist()
    if k >= 2 and 5 in may_be_listed((said, known, pairs, k, options)):
        assert found.index(5) == min(1, len(found) - 1)


@given(PROBLEM)
def test_no_rules_and_no_options_give_the_best_k(problem):
    _, known, pairs, k, _ = problem
    nothing = {"block": [], "allow": [], "boost": [], "bury": [], "cap": [], "pin": []}
    found = apply((nothing, known, pairs, k, {"exclude_categories": ()}))
    best: dict[int, float] = {}
    for item, score in pairs:
        if item >= 0 and np.isfinite(score):
            best[item] = max(score, best.get(item, -np.inf))
    wanted = sorted(best, key=lambda item: (-best[item], item))[:k]
    assert found.items_K.tolist() == wanted
    assert found.notes == ((),) * len(wanted)


@settings(max_examples=2 * settings.default.max_examples)
@given(PROBLEM)
def test_blocked_items_are_those_of_the_rules_and_of_the_options(problem):
    said, known, _, _, options = problem
    blocked = Rules.of(said).using(**options).blocked(known)
    may = may_be_listed(problem)
    if blocked is None:
        assert may == set(range(ITEMS))
    else:
        assert set(np.flatnonzero(~blocked).tolist()) == may


def test_a_seed_that_is_none_is_refused():
    with pytest.raises(UsageError, match="seed must be an integer"):
        Rules.none().using(seed=-1)


def test_true_and_one_are_different_values():
    known = facts_of({0: {"sold": True}, 1: {"sold": 1}})
    for wanted, item in ((True, 0), (1, 1)):
        rules = Rules.of({"allow": {"where": {"sold": wanted}}})
        assert reranked(rules, np.arange(2), np.ones(2), 2, known).items_K.tolist() == [item]
