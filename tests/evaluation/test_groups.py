"""Metrics of groups of users or items, values of each user, and what a report says of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sdgar
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.metrics import interval

USERS, ITEMS = 30, 20
METRICS = ["ndcg@5", "hit@5", "coverage@5", "novelty@5"]


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(3)
    wanted = rng.random((USERS, ITEMS)) < np.linspace(0.1, 0.7, ITEMS)
    wanted[:, :2] = True
    users, items = np.nonzero(wanted)
    held = rng.random(len(users)) < 0.3
    held[np.unique(users, return_index=True)[1]] = False
    train = sdgar.Interactions.from_arrays([f"u{u}" for u in users[~held]], items[~held])
    # Item 99 is cold: no training row has it.
    owners = [*(f"u{u}" for u in users[held]), "u0"]
    return train, sdgar.Interactions.from_arrays(owners, [*items[held], 99])


@pytest.fixture(scope="module")
def report(parts):
    train, test = parts
    return sdgar.EASE(l2=5.0).fit(train).evaluate(test, metrics=METRICS)


def alone(parts, keep) -> dict[str, float]:
    """Measure the held-out rows that are kept, as if there were no others."""
    train, test = parts
    chosen = np.array(
        [keep(test.users.values[u], test.items.values[i])
         for u, i in zip(test.users_E, test.items_E, strict=True)]
    )  # fmt: skip
    model = sdgar.EASE(l2=5.0).fit(train)
    return model.evaluate(test.subset(chosen, "others"), metrics=METRICS).means()


def test_groups_of_users_have_the_metrics_of_these_users_alone(parts, report):
    _, test = parts
    table = {f"u{u}": {"team": "red" if u % 3 else "blue"} for u in range(USERS - 1)}
    groups = report.by("team", users=table)
    assert list(groups) == ["blue", "red", "no team"]
    for name, group in groups.items():
        team = None if name == "no team" else name
        wanted = alone(parts, lambda user, _, team=team: table.get(user, {}).get("team") == team)
        assert group.means() == pytest.approx(wanted, rel=1e-12)
    assert sum(group.counts.users for group in groups.values()) == len(report.users_T)
    assert sum(group.counts.rows for group in groups.values()) == len(test)
    users = report.frame()["user"].to_list()
    blue = [user for user in users if table.get(user, {}).get("team") == "blue"]
    assert groups["blue"].frame()["user"].to_list() == blue


def test_groups_of_items_have_the_metrics_of_these_held_out_rows(parts, report):
    table = {i: {"kind": ["even"] * (i % 2 == 0) + ["low"] * (i < 5)} for i in range(ITEMS)}
    groups = report.by("kind", items=table)
    assert list(groups) == ["even", "low", "no kind"]
    for name, group in groups.items():
        kinds = {item: row["kind"] or ["no kind"] for item, row in table.items()}
        wanted = alone(parts, lambda _, i, name=name, of=kinds: name in of.get(i, ["no kind"]))
        # Whole lists are no matter of some held-out items, so only accuracy is left.
        assert set(group.means()) == {"ndcg@5", "hit@5"}
        assert group.means() == pytest.approx({n: wanted[n] for n in group.means()}, rel=1e-12)


def test_activity_and_popularity_are_quarters_that_keep_equal_values_together(parts, report):
    train, test = parts
    sizes = dict(zip(train.users.values, np.diff(train.indptr_U1), strict=True))
    low = members = 0
    for name, group in report.by("activity").items():
        own = [sizes[user] for user in group.frame()["user"].to_list()]
        said = name.removesuffix(" items").split(" to ")
        assert [min(own), max(own)] == [int(said[0]), int(said[-1])]
        assert min(own) > low
        low = max(own)
        members += len(own)
    assert members == len(report.users_T)
    counts = np.bincount(train.items_E, minlength=train.n_items)
    popular = dict(zip(train.items.values.tolist(), counts.tolist(), strict=True))
    rows = 0
    for name, group in report.by("popularity").items():
        first, *last = map(int, name.removesuffix(" users").split(" to "))
        between = range(first, (last or [first])[0] + 1)
        have = [popular.get(i, 0) in between for i in test.items.values[test.items_E].tolist()]
        assert group.counts.rows == sum(have)
        rows += sum(have)
    assert rows == len(test)


def test_many_numbers_are_quarters_and_few_are_groups_of_their_own(report):
    ages = {f"u{u}": {"age": str(20 + u), "cars": 1 + u % 3} for u in range(USERS)}
    assert list(report.by("cars", users=ages)) == ["1", "2", "3"]
    groups = report.by("age", users=ages)
    assert len(groups) == 4
    assert next(iter(groups)).startswith("20 to ")


def test_columns_that_cannot_be_grouped_by_are_refused(report):
    table = {f"u{u}": {"name": f"n{u}", "team": "red"} for u in range(USERS)}
    with pytest.raises(UsageError, match=r"no column 'tem' to group by.*column: name, team"):
        report.by("tem", users=table)
    with pytest.raises(UsageError, match="none was given"):
        report.by("team")
    names = {f"u{u}": {"name": [f"{u}-{n}" for n in range(5)]} for u in range(USERS)}
    with pytest.raises(DataError, match="different values, and at most 100 groups"):
        report.by("name", users=names)
    assert len(report.by("name", users=table)) == len(report.users_T)


def test_a_report_of_whole_lists_or_of_values_alone_has_no_groups(parts, report):
    train, test = parts
    with pytest.raises(UsageError, match="no lists, only metrics"):
        replace(report, ranked=None).by("activity")
    model = sdgar.MostPopular().fit(train)
    with pytest.raises(UsageError, match="Add a metric of accuracy"):
        model.evaluate(test, metrics=["coverage@3"]).by("popularity")


def test_values_of_users_are_a_frame_of_polars_or_pandas(report):
    frame = report.frame()
    assert frame.columns == ["user", "ndcg@5", "hit@5", "novelty@5"]  # coverage is of no user
    assert frame["ndcg@5"].mean() == pytest.approx(report.means()["ndcg@5"], rel=1e-12)
    same = report.frame(like=pd.DataFrame())
    assert isinstance(same, pd.DataFrame)
    assert same["novelty@5"].tolist() == frame["novelty@5"].to_list()


def test_contexts_of_several_fields_are_a_column_each():
    rows = [("ann", "day", 1), ("ann", "night", 2), ("bob", "day", 2), ("bob", "night", 3)]
    users, parts, items = zip(*rows, strict=True)
    train = sdgar.Interactions.from_contexts({"user": users, "daypart": parts}, items)
    test = sdgar.Interactions.from_contexts({"user": ["bob"], "daypart": ["day"]}, [1])
    report = sdgar.MostPopular().fit(train).evaluate(test, metrics=["hit@2"])
    assert report.frame().rows() == [("bob", "day", 1.0)]
    groups = report.by("team", users={"bob": {"team": "x"}})
    assert {name: one.means() for name, one in groups.items()} == {"x": {"hit@2": 1.0}}


def test_users_without_a_value_are_left_out_of_means_and_intervals(parts):
    train, test = parts
    report = sdgar.MostPopular().fit(train).evaluate(test, metrics=["cold_hit@5", "ndcg@5"])
    values = report.per_user["cold_hit@5"]
    assert np.isfinite(values).sum() == 1  # u0 alone has item 99
    assert report.means()["cold_hit@5"] == 0.0
    assert report.intervals()["cold_hit@5"] == (0.0, 0.0)
    assert report.frame()["cold_hit@5"].null_count() == len(values) - 1
    with pytest.raises(UsageError, match="at least 2 users, got 1"):
        sdgar.compare(report, report, "cold_hit@5")


def test_intervals_with_gaps_are_those_of_the_ratio_of_sums():
    values = np.array([[0.0, np.nan], [1.0, 1.0], [0.5, 3.0], [2.0, np.nan]])
    rng = np.random.default_rng(4)
    draws = rng.integers(0, 4, (200, 4))
    of_draws = [row[~np.isnan(row)] for row in values[draws, 1]]
    with_values = [row.mean() for row in of_draws if len(row)]
    low, high = interval(values, 0.9, 200, 4)
    assert [low[1], high[1]] == pytest.approx(np.quantile(with_values, [0.05, 0.95]))
    whole = np.quantile(values[draws, 0].mean(axis=1), [0.05, 0.95])
    assert [low[0], high[0]] == pytest.approx(whole)


def test_what_all_lists_have_together_is_no_matter_of_a_test_over_users(report):
    with pytest.raises(UsageError, match="coverage@5 is one number of all lists together"):
        sdgar.compare(report, report, "coverage@5")
    assert "coverage@5" not in report.intervals()
    plain = report.as_dict()
    assert plain["metrics"]["coverage@5"] == {"mean": report.means()["coverage@5"]}
    assert set(plain["definitions"]) == {"ndcg", "hit", "coverage", "novelty"}
