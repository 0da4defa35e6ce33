from __future__ import annotations

import datetime
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sdgar
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.merge import with_ids_of
from sdgar.errors import DataError, SdgarError, UsageError


def some_data(seed: int = 0, *, time: bool = True, rows: int = 600) -> Interactions:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 30, rows), rng.integers(0, 80, rows)
    return Interactions.from_arrays(
        users, items, time=rng.integers(0, 10**6, rows) if time else None
    )


def pairs_of(data: Interactions) -> set:
    return set(zip(data.users.at(data.users_E), data.items.at(data.items_E), strict=True))


def counts_of(data: Interactions) -> dict:
    return dict(zip(data.users.values.tolist(), np.diff(data.indptr_U1).tolist(), strict=True))


@pytest.mark.parametrize("rule", splits.RULES)
def test_the_parts_are_disjoint_and_together_the_whole(rule):
    data = some_data()
    parts = splits.split(data, rule, seed=1)
    assert pairs_of(parts.train).isdisjoint(pairs_of(parts.held_out))
    assert pairs_of(parts.train) | pairs_of(parts.held_out) == pairs_of(data)


@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.2, 0.25, 0.3]))
def test_the_papers_rule_holds_out_the_ceiling_of_each_users_share(seed, share):
    data = some_data(seed % 7)
    total = counts_of(data)
    held = counts_of(splits.per_user(data, share=share, seed=seed).held_out)
    for user, n in total.items():
        exact = math.ceil(round(share * 100) * n / 100)
        assert held[user] == exact


def test_the_papers_rule_gives_the_sizes_of_the_authors_split(shared_data):
    import polars as pl

    for name in ("citeulike-t", "gowalla"):
        train = pl.read_parquet(shared_data / name / "train.parquet")
        test = pl.read_parquet(shared_data / name / "test.parquet")
        both = pl.concat([train.select("user", "item"), test.select("user", "item")])
        data = Interactions.from_arrays(both["user"].to_numpy(), both["item"].to_numpy())
        parts = splits.per_user(data, seed=0)
        assert (len(parts.train), len(parts.held_out)) == (train.height, test.height)


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    data = some_data()
    first, same, other = (splits.per_user(data, seed=s).train.fingerprint() for s in (1, 1, 2))
    assert first == same != other


def test_validation_takes_a_tenth_and_leaves_every_user_a_row():
    data = some_data(time=False)
    parts = splits.validation(data, seed=5)
    assert len(parts.held_out) == round(0.1 * len(data))
    assert parts.train.n_users == data.n_users


def test_validation_of_users_with_a_single_row_takes_none_of_them():
    data = Interactions.from_arrays(np.arange(100), np.arange(100) % 7)
    with pytest.raises(DataError, match="leaves no row held out"):
        splits.random_rows(data, seed=0)


def test_a_split_by_time_has_no_training_row_after_a_test_row():
    data = some_data()
    parts = splits.by_time(data, share=0.1)
    assert parts.train.time_E.max() < parts.held_out.time_E.min()
    assert len(parts.held_out) == math.floor(0.1 * len(data))


def test_rows_of_one_moment_stay_together():
    data = Interactions.from_arrays([1, 1, 2, 2], [1, 2, 3, 4], time=[1, 5, 5, 5])
    parts = splits.by_time(data, share=0.25)
    assert parts.train.time_E.tolist() == [1]
    with pytest.raises(DataError, match="no row left to train on"):
        splits.by_time(Interactions.from_arrays([1, 1], [1, 2], time=[5, 5]))


@pytest.mark.parametrize("rule", splits.RULES)
def test_no_rule_takes_the_only_row_of_a_user(rule):
    users = [*range(50), *[50] * 10, *[51] * 10]
    data = Interactions.from_arrays(
        users, [*range(50), *range(20)], time=[*range(0, 500, 10), *range(490, 510)]
    )
    parts = splits.split(data, rule, seed=3)
    assert set(range(50)) <= set(parts.train.users.values.tolist())
    assert set(parts.held_out.users.values.tolist()) <= {50, 51}


def test_leave_last_out_takes_the_latest_row_of_each_user_and_warns_of_leakage():
    data = Interactions.from_arrays([1, 1, 1, 2, 2, 3], [1, 2, 3, 1, 2, 9], time=[3, 9, 1, 4, 4, 1])
    parts = splits.leave_last_out(data)
    assert pairs_of(parts.held_out) == {(1, 2), (2, 2)}
    assert "later than some test rows" in parts.warning


def test_time_is_the_default_where_there_is_one():
    assert splits.default_rule(some_data()) == "time"
    assert splits.default_rule(some_data(time=False)) == "paper"


@pytest.mark.parametrize("rule", ["time", "leave-last-out"])
def test_a_split_in_time_without_times_says_what_to_do(rule):
    with pytest.raises(UsageError, match="--time-column"):
        splits.split(some_data(time=False), rule)


DAY = 86_400_000_000
START = 1_700_000_000_000_000
"""In November 2023, in microseconds."""


@st.composite
def dated(draw) -> Interactions:
    """Rows of a few users over two weeks, some of them at the same moment."""
    row = st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 14 * 24))
    rows = draw(st.lists(row, min_size=8, max_size=60, unique_by=lambda r: r[:2]))
    users, items, hours = (np.array(column) for column in zip(*rows, strict=True))
    return Interactions.from_arrays(users, items, time=START + hours * (DAY // 24))


def mixed(data: Interactions, seed: int) -> Interactions:
    """The same rows, handed in in another order."""
    order = np.random.default_rng(seed).permutation(len(data))
    return Interactions.from_arrays(
        data.users.at(data.users_E)[order],
        data.items.at(data.items_E)[order],
        time=None if data.time_E is None else data.time_E[order],
    )


def all_rows(parts: splits.Split) -> list[Interactions]:
    return [p for p in (parts.train, parts.histories, parts.held_out) if p is not None]


def or_assume(make):
    """What a rule gives; examples that leave one side empty say so, and are passed over."""
    try:
        return make()
    except DataError as error:
        if error.code != "empty_split":
            raise
        assume(False)


@given(dated(), st.integers(1, 13))
def test_a_split_by_date_is_the_whole_and_leaks_nothing_of_the_future(data, day):
    at = START + day * DAY
    parts = or_assume(lambda: splits.by_date(data, at))
    assert parts.train.time_E.max() < at <= parts.held_out.time_E.min()
    assert pairs_of(parts.train) | pairs_of(parts.held_out) == pairs_of(data)
    assert len(parts.train) + len(parts.held_out) == len(data)


@given(dated(), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9))
def test_windows_follow_one_another_to_the_end_and_train_on_all_that_was_before(data, days, n, s):
    rule = f"windows:{days}d:{n}"
    parts = or_assume(lambda: list(sdgar.folds(data, rule)))
    assert len(parts) == n
    end = data.time_E.max() + 1
    for w, part in enumerate(parts):
        start = end - (n - w) * days * DAY
        assert part.train.time_E.max() < start <= part.held_out.time_E.min()
        assert part.held_out.time_E.max() < start + days * DAY
        assert len(part.train) == (data.time_E < start).sum()
    held = [pair for part in parts for pair in pairs_of(part.held_out)]
    assert len(held) == len(set(held)) == (data.time_E >= end - n * days * DAY).sum()
    again = list(sdgar.folds(mixed(data, s), rule))
    assert [p.train.fingerprint() for p in parts] == [p.train.fingerprint() for p in again]


@given(dated(), st.integers(2, 5), st.integers(0, 99))
def test_each_row_is_in_one_fold_and_no_user_loses_all_rows(data, k, seed):
    parts = or_assume(lambda: list(sdgar.folds(data, f"folds:{k}", seed=seed)))
    held = [pair for part in parts for pair in pairs_of(part.held_out)]
    several = {user for user, n in counts_of(data).items() if n > 1}
    assert len(held) == len(set(held))
    assert set(held) == {pair for pair in pairs_of(data) if pair[0] in several}
    for part in parts:
        assert pairs_of(part.train) | pairs_of(part.held_out) == pairs_of(data)
        assert len(part.train) + len(part.held_out) == len(data)
        assert part.train.users.values.tolist() == data.users.values.tolist()
    sizes = [len(part.held_out) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    again = list(sdgar.folds(mixed(data, seed), f"folds:{k}", seed=seed))
    assert [p.train.fingerprint() for p in parts] == [p.train.fingerprint() for p in again]


@given(dated(), st.booleans(), st.sampled_from([0.1, 0.3, 0.5]), st.integers(0, 99))
def test_held_out_users_are_out_of_training_whole_and_have_a_history(data, timed, share, seed):
    if not timed:
        data = replace(data, time_E=None)
    parts = or_assume(lambda: splits.split(data, f"users:{share}", seed=seed))
    held = set(parts.held_out.users.values.tolist())
    assert held == set(parts.histories.users.values.tolist())
    assert held.isdisjoint(parts.train.users.values.tolist())
    assert sum(map(len, all_rows(parts))) == len(data)
    assert set.union(*map(pairs_of, all_rows(parts))) == pairs_of(data)
    total, found = counts_of(data), counts_of(parts.held_out)
    assert len(held) <= math.ceil(round(share * data.n_users, 9))
    assert all(total[user] > 1 for user in held)
    assert all(found[user] == min(-(-total[user] // 5), total[user] - 1) for user in held)
    if timed:
        for user in held:
            known, wanted = (
                part.time_E[part.users.at(part.users_E) == user]
                for part in (parts.histories, parts.held_out)
            )
            assert known.max() <= wanted.min()
    again = splits.split(mixed(data, seed), f"users:{share}", seed=seed)
    assert [p.fingerprint() for p in all_rows(parts)] == [p.fingerprint() for p in all_rows(again)]


def dates(n: int = 10) -> Interactions:
    """A row a day of the first days of March 2024, by two users in turn."""
    first = datetime.datetime(2024, 3, 1, 12, tzinfo=datetime.UTC)
    days = [first + datetime.timedelta(days=d) for d in range(n)]
    return Interactions.from_arrays([1, 2] * (n // 2), range(n), time=days)


@pytest.mark.parametrize(
    "said",
    [
        "2024-03-07", "2024-03-07T12:00:00", "2024-03-07 14:00+02:00", "1709812800",
        "1709812800000", "1709812800000000", "1709812800000000000",
    ],
)  # fmt: skip
def test_a_moment_is_a_date_a_time_or_a_count_since_1970(said):
    parts = splits.split(dates(), f"date:{said}")
    assert parts.held_out.items.values.tolist() == [6, 7, 8, 9]
    assert "2024-03-07" in parts.how


def test_any_other_order_of_times_is_cut_at_one_of_them():
    data = Interactions.from_arrays([1, 1, 2, 2], [1, 2, 3, 4], time=[1, 5, 6, 7])
    assert len(splits.split(data, "date:6").held_out) == 2
    assert [len(part.held_out) for part in sdgar.folds(data, "windows:1:2")] == [1, 1]
    with pytest.raises(UsageError, match=r"times of the data are numbers from 1 to 7"):
        splits.split(data, "date:2024-03-01")
    with pytest.raises(UsageError, match=r"numbers from 1 to 7: write how many"):
        sdgar.folds(data, "windows:1d:2")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("papr", "Did you mean 'paper'"),
        ("2024-03-01", "Known: date:2024-03-01"),
        ("date:yesterday", "'yesterday' is no moment"),
        ("date:2025-01-01", r"no row held out.*times go from 2024-03-01 12:00:00 to 2024-03-10"),
        ("date:", "unknown split"),
        ("windows:7:3", "'7' is no length of a window. Write 90s"),
        ("windows:0d:3", "no length of a window"),
        ("windows:5d:3", "no row before the first window"),
        ("windows:1min:2", "window 1 of 2.*has no row"),
        ("windows:2d:x", "should end with a number"),
        ("folds:1", "at least 2, got 1"),
        ("folds:20", "cannot be dealt into 20 folds"),
        ("folds", "should end with a number"),
        ("users:2", "between 0 and 1"),
        ("users:some", "between 0 and 1, got 'some'"),
        ("leave-last-out:3", "unknown split"),
    ],
)
def test_a_rule_that_cannot_be_followed_says_why(rule, said):
    with pytest.raises(SdgarError, match=said):
        list(sdgar.folds(dates(), rule))


def test_several_folds_are_not_one_split_and_a_share_is_said_once():
    with pytest.raises(UsageError, match=r"for part in sdgar.folds\(data, 'folds:2'\)"):
        splits.split(dates(), "folds:2")
    with pytest.raises(UsageError, match="Leave one of them out"):
        splits.split(dates(), "time:0.2", share=0.3)
    for rule in ("leave-last-out", "date:2024-03-07"):
        with pytest.raises(UsageError, match="has no meaning"):
            splits.split(dates(), rule, share=0.3)
    assert len(splits.split(dates(), "time:0.3").held_out) == 3
    (alone,) = sdgar.folds(dates(), "time:0.3")
    assert len(alone.held_out) == 3


def test_whole_users_with_contexts_of_several_fields_are_refused():
    data = Interactions.from_contexts({"user": [1, 1, 2], "city": ["a", "b", "a"]}, [1, 2, 3])
    with pytest.raises(UsageError, match="a context is user, city"):
        splits.split(data, "users:0.5")


def test_a_split_of_users_describes_its_three_parts():
    data = some_data()
    parts = splits.split(data, "users:0.2")
    assert "6 whole users" in repr(parts)
    assert "histories: 6 users" in repr(parts)
    assert "to fold in" in parts.size_text()


def test_validation_rows_are_those_of_some_users():
    users = np.repeat(np.arange(50), 10)
    data = Interactions.from_arrays(users, np.tile(np.arange(10), 50))
    part = splits.validation(data, most_users=20)
    assert len(part.held_out) == 20
    assert len(np.unique(part.held_out.users.values)) <= 20
    assert len(part.train) + len(part.held_out) == len(data)
    assert "20 users" in part.how
    whole = splits.validation(data, most_users=50)
    assert len(whole.held_out) == 50


def test_rows_can_take_the_ids_of_more_rows():
    data = Interactions.from_arrays([1, 1, 2, 3], ["a", "b", "c", "a"], weight=[1.0, 2.0, 3.0, 4.0])
    some = data.subset(np.array([True, False, True, False]), "test")
    wide = with_ids_of(some, data)
    assert (wide.n_users, wide.n_items, len(wide)) == (3, 3, 2)
    assert wide.users.at(wide.users_E).tolist() == [1, 2]
    assert wide.items.at(wide.items_E).tolist() == ["a", "c"]
    assert wide.weight_E.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("timed", [False, True])
def test_whole_items_are_held_out_with_a_fifth_of_the_other_rows(timed):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 20)) < 0.5)
    time = rng.permutation(len(users)) if timed else None
    data = Interactions.from_arrays(users, items, time=time)
    part = splits.split(data, "items:0.25", seed=3)
    cold = np.setdiff1d(data.items.values, part.train.items.values)
    assert len(cold) == 5
    held = part.held_out
    is_cold_E = np.isin(held.items.values[held.items_E], cold)
    assert is_cold_E.sum() == np.isin(items, cold).sum()
    assert len(part.train) + len(held) == len(data)
    warm = held[~is_cold_E]
    for user in data.users.values:
        others = int(((users == user) & ~np.isin(items, cold)).sum())
        own = warm.users.values[warm.users_E] == user
        assert own.sum() == min(-(-others // 5), others - 1)
        if timed and own.any():
            kept = part.train.users.values[part.train.users_E] == user
            assert warm.time_E[own].min() > part.train.time_E[kept].max()
    again = splits.split(data, "items:0.25", seed=4)
    assert not np.array_equal(again.train.items.values, part.train.items.values)
