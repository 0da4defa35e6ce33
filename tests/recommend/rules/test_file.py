"""A file of rules: what it can say, and each mistake with its place and its cure."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import sdgar
from sdgar.errors import UsageError
from sdgar.recommend.rules import Facts, Rules
from sdgar.recommend.rules.facts import moment
from sdgar.recommend.rules.settings import duration

from .reranked import facts_of, reranked

WHOLE = """
now = 2026-03-01
candidates = 300

[[block]]
name = "recalled"
items = ["a", 7]

[[allow]]
where = { stock = { at_least = 1 }, sold = [true, "yes"] }

[[age]]
field = "out"
at_least = "12h"
at_most = "2y"

[[boost]]
name = "new arrivals"
categories = "new"
by = 0.5

[[bury]]
where = { maker = "acme", category = ["drama", "crime"] }
by = 2

[[cap]]
by = "maker"
at_most = 2

[[cap]]
at_most = 1
values = ["drama"]

[[pin]]
items = "b"

[popularity]
dial = -0.2

[freshness]
half_life = "30d"
weight = 0.7
field = "out"

[diversity]
strength = 0.3
method = "dpp"
on = "categories"

[calibration]
strength = 0.4
by = "maker"

[exploration]
temperature = 0.1
seed = 7
"""


def written(tmp_path, text: str | bytes) -> Rules:
    path = tmp_path / "rules.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Rules.read(path)


def test_a_file_can_have_every_rule(tmp_path):
    rules = written(tmp_path, WHOLE)
    assert repr(rules) == (
        "Rules: 1 block, 1 allow, 1 age, 1 boost, 1 bury, 2 cap, 1 pin, 1 popularity, 1 freshness, "
        "1 diversity, 1 calibration, 1 exploration"
    )
    assert rules.using().depth(10) == 300
    assert rules.using().depth(100) == 500
    assert rules.using().own_seed() == 7
    assert rules == written(tmp_path, WHOLE)
    assert hash(rules) == hash(written(tmp_path, WHOLE))
    assert rules != Rules.none()
    assert not Rules.none()


def test_only_pins_want_no_more_candidates_than_the_list_has():
    cap, pin = {"cap": {"at_most": 1}}, {"pin": {"items": ["a"]}}
    for rules, k, depth in (({}, 10, 10), (pin, 10, 10), (cap, 10, 100), (cap, 50, 250)):
        assert Rules.of(rules).using().depth(k) == depth


MISTAKES = [
    ("boots = 1", "there is no rule 'boots'. Did you mean 'boost'?"),
    ("[[boost]]\nby = 1", "[[boost]]: it must say which items"),
    ("[[boost]]\nitems = []\nby = 1", "[[boost]]: it must say which items"),
    ('[[boost]]\nitems = ["a"]', "[[boost]]: by is missing"),
    ('[[boost]]\nitems = ["a"]\nby = 0', "by is 0. Write a number above 0"),
    ('[[boost]]\nitems = ["a"]\nby = "x"', "by is 'x'"),
    ('[[boost]]\nitems = ["a"]\nby = true', "by is True"),
    ('[[boost]]\nitems = ["a"]\nby = nan', "by is nan"),
    ('[[boost]]\nitems = [1.5]\nby = 1', "Write ids, each a text or a whole number"),
    ('[[boost]]\nitems = [true]\nby = 1', "Write ids, each a text or a whole number"),
    ('[[boost]]\nitems = ["a"]\ncategories = ["b"]\nby = 1', "it must say which items, by one of"),
    ('[[boost]]\nitems = ["a"]\nby = 1\nbuy = 2', "no setting 'buy'. Did you mean 'by'?"),
    ('[[bury]]\ncategories = [1]\nby = 1', "categories is [1]"),
    ('[[block]]\nwhere = "maker"', "where is 'maker'"),
    ('[[block]]\nwhere = {}', "it must say which items"),
    ('[[block]]\nwhere = {maker = []}', "where is {'maker': []}"),
    ('[[block]]\nwhere = {maker = [[1]]}', "where is {'maker': [[1]]}"),
    ('[[block]]\nwhere = {stock = {at_leest = 1}}', "where is {'stock': {'at_leest': 1}}"),
    ('[[block]]\nwhere = {stock = {}}', "where is {'stock': {}}"),
    ('[[block]]\nwhere = {stock = {at_least = "1"}}', "with numbers or dates"),
    ('[[block]]\nwhere = {stock = {at_least = inf}}', "with numbers or dates"),
    ('[[block]]\nwhere = {out = {at_least = 1, at_most = 2026-01-01}}', "with numbers or dates"),
    ('[[block]]\nname = ""\nitems = ["a"]', "name is ''. Write a text"),
    ('[[block]]\nitems = ["a"]\n[[block]]\nitems = 1.5', "[[block]] number 2: items is 1.5"),
    ('block = 3', "[[block]]: this must be a table of settings, got 3"),
    ('[[age]]\nfield = "out"', "[[age]]: it has no bound"),
    ('[[age]]\nat_least = 7', "at_least is 7. Write a duration"),
    ('[[age]]\nat_least = "0d"', "at_least is '0d'. Write a duration"),
    ('[[age]]\nat_least = "2d"\nat_most = "1d"', "at_least is more than at_most"),
    ('[[cap]]\nby = "maker"', "at_most is missing"),
    ('[[cap]]\nat_most = 0', "at_most is 0. Write a whole number from 1"),
    ('[[cap]]\nat_most = 1.5', "at_most is 1.5"),
    ('[[cap]]\nat_most = 1\nby = 3', "by is 3. Write the name of a field"),
    ('[[pin]]\nat = 1', "[[pin]]: items is missing. Write ids"),
    ('[[pin]]\nitems = ["a"]\nat = 0', "at is 0"),
    ('[popularity]\ndial = 2', "[popularity]: dial is 2. Write a number from -1 to 1."),
    ('[popularity]', "dial is missing"),
    ('[[popularity]]\ndial = 1', "popularity is allowed once. Write [popularity]"),
    ('[freshness]\nweight = 1', "half_life is missing"),
    ('[freshness]\nhalf_life = "soon"', "half_life is 'soon'"),
    ('[diversity]\nstrength = 1.2', "strength is 1.2. Write a number from 0 to 1."),
    ('[diversity]\nstrength = 1\nmethod = "mrr"', "Did you mean 'mmr'?"),
    ('[diversity]\nstrength = 1\non = ["vectors"]', "on is ['vectors']"),
    ('[calibration]\nstrength = -1', "strength is -1"),
    ('[exploration]\ntemperature = 0', "temperature is 0"),
    ('[exploration]\ntemperature = 1\nseed = -1', "seed is -1"),
    ('[exploration]\ntemperature = 1\nmethod = "tompson"', "Did you mean 'thompson'"),
    ('candidates = 0', "candidates is 0. Write a whole number from 1 to 100,000."),
    ('now = "soon"', "now is 'soon'. Write a date"),
    ('[[block]\nitems = 1', "is not TOML in UTF-8"),
    ("x = " + "[" * 4000, "is not TOML in UTF-8"),
    (b"# \xff", "is not TOML in UTF-8: 'utf-8' codec can't decode byte 0xff in position 2"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_place_and_its_cure(tmp_path, text, said):
    with pytest.raises(UsageError) as raised:
        written(tmp_path, text)
    assert said in str(raised.value)
    assert "rules.toml" in str(raised.value)
    assert raised.value.code in ("bad_rules", "unknown_rule")


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read") as raised:
        Rules.read(tmp_path / "none.toml")
    assert raised.value.code == "no_rules_file"
    with pytest.raises(UsageError, match="cannot be read"):
        Rules.read(tmp_path)
    (tmp_path / "large.toml").write_bytes(b"#" * (17 << 20))
    with pytest.raises(UsageError, match="more than"):
        Rules.read(tmp_path / "large.toml")
    with pytest.raises(UsageError, match="path must be a path"):
        Rules.read(3)
    with pytest.raises(UsageError, match=r"the store, .*at_most is missing"):
        Rules.of({"cap": [{}]}, "the store")


@pytest.mark.parametrize(
    ("where", "meets"),
    [
        ({"maker": "acme"}, {0, 3}),
        ({"maker": ["acme", "bolt"]}, {0, 1, 3}),
        ({"stock": 0}, {1}),
        ({"stock": {"at_least": 3}}, {0, 3}),
        ({"stock": {"at_least": 1, "at_most": 4}}, {0, 3}),
        ({"sold": True}, {0, 3}),
        ({"sold": False}, {1}),
        ({"category": "drama"}, {0, 1}),
        ({"categories": ["crime", "fun"]}, {1, 2}),
        ({"category": "drama", "maker": "bolt"}, {1}),
        ({"out": {"at_least": datetime.date(2020, 1, 1)}}, {0, 2}),
        ({"out": {"at_most": datetime.date(2019, 12, 31)}}, {1}),
        ({"nothing": "x"}, set()),
    ],
)
def test_conditions_look_at_fields_however_they_are_spelt(where, meets):
    facts = facts_of(
        {
            0: {"categories": "drama", "maker": "acme", "stock": "3", "sold": "true", "out": 2020},
            1: {"categories": ["crime", "drama"], "maker": "bolt", "stock": 0.0, "sold": False,
                "out": "2019-05-01"},
            2: {"category": "fun", "stock": "none", "out": 1_600_000_000},
            3: {"maker": ("other", "acme"), "stock": [2, 9], "sold": True},
        }
    )  # fmt: skip
    rules = Rules.of({"allow": {"where": where}})
    assert set(reranked(rules, np.arange(5), np.arange(5.0), 5, facts).items_K.tolist()) == meets


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (1_600_000_000, 1.6e9),
        ("1600000000000", 1.6e9),
        (1_600_000_000_000_000, 1.6e9),
        (1_600_000_000_000_000_000, 1.6e9),
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        (datetime.date(1970, 1, 2), 86_400.0),
        (1971, 365 * 86_400.0),
        (None, None),
        ("soon", None),
        (True, None),
        (float("inf"), None),
    ],
)
def test_moments_are_read_however_they_are_spelt(value, seconds):
    wanted = np.nan if seconds is None else seconds
    assert moment(value) == pytest.approx(wanted, nan_ok=True)


def test_lengths_of_time_have_a_unit():
    assert duration("1.5h") == 5400
    assert duration("1y") == 365 * duration("1d")
    for text in ("7", 7, "d", "-1d", "0s", None):
        with pytest.raises(ValueError):
            duration(text)


def test_rules_name_what_they_do_not_find():
    ids = sdgar.Interactions.from_arrays(["u", "u"], ["a", "b"]).items
    rules = Rules.of(
        {
            "block": {"items": ["a", "zz"]},
            "boost": {"where": {"makr": "x"}, "by": 1},
            "cap": {"at_most": 1},
            "pin": {"items": ["yy"]},
            "freshness": {"half_life": "1d"},
            "diversity": {"strength": 0.1, "on": "categories"},
        }
    )
    facts = Facts({0: {"maker": "x", "categories": ["c"]}}, ids)
    assert rules.using().complaints(facts) == [
        "the rules name items that the model does not know: zz, yy.",
        "the rules name fields that no item has: first_seen, makr. Fields: category, maker.",
    ]
    assert "There are no fields at all." in rules.using().complaints(Facts({}, ids))[1]
    assert Rules.none().using().complaints(Facts({}, ids)) == []


def test_facts_are_found_by_number_and_by_id():
    ids = sdgar.Interactions.from_arrays([1, 1, 1], [10, 20, 30]).items
    facts = Facts.of({"20": {"categories": ["x", "x"], "maker": "m"}, 99: {"maker": "n"}}, ids)
    assert facts.categories_of(1) == ("x",)
    assert facts.categories_of(0) == facts.categories_of(77) == ()
    assert facts.values_of(1, "maker") == ("m",)
    assert facts.values_of(0, "maker") == ()
    assert facts.fields() == {"category", "maker"}
    assert facts.index_of([30, "10", "x"]).tolist() == [2, 0, -1]


def test_pins_that_share_a_place_follow_each_other_and_are_noted():
    rules = Rules.of({"pin": [{"items": [9, 8], "at": 2, "name": "sale"}, {"items": [7], "at": 2}]})
    scores = {9: 0.9, 8: 0.8, 7: 0.7}
    found = reranked(rules, np.arange(5), np.arange(5.0), 5, pin_scores=scores)
    assert found.items_K.tolist() == [4, 9, 8, 7, 3]
    assert found.scores_K.tolist() == [4.0, 0.9, 0.8, 0.7, 3.0]
    assert found.notes == ((), ("pinned: sale",), ("pinned: sale",), ("pinned",), ())
    short = reranked(rules, np.arange(5), np.arange(5.0), 2, pin_scores=scores)
    assert short.items_K.tolist() == [4, 9]
    none = reranked(rules, np.arange(0), np.arange(0.0), 5, pin_scores=scores)
    assert none.items_K.tolist() == [9, 8, 7]
    some = reranked(rules, np.arange(0), np.arange(0.0), 5, pin_scores={**scores, 8: -np.inf})
    assert some.items_K.tolist() == [9, 7]  # what has no finite score may not be listed


def test_a_cap_notes_what_it_kept_and_what_moved_up():
    facts = facts_of({i: {"categories": ["drama" if i < 4 else "crime"]} for i in range(6)})
    rules = Rules.of({"cap": {"at_most": 2, "values": ["drama"]}})
    found = reranked(rules, np.arange(6), np.arange(6.0)[::-1], 4, facts)
    assert found.items_K.tolist() == [0, 1, 4, 5]
    kept, up = "kept: at most 2 of drama", "moved up: at most 2 of drama"
    assert found.notes == ((kept,), (kept,), (up,), (up,))
    open_ = reranked(rules, np.arange(6), np.arange(6.0), 2, facts)
    assert open_.notes == ((), ())  # nothing was left out, so nothing is said
