from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError


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
    with pytest.raises(UsageError, match="--time"):
        splits.split(some_data(time=False), rule)


def test_the_parts_can_be_unpacked():
    data = some_data()
    train, test = splits.split(data)
    assert train.fingerprint() == splits.by_time(data).train.fingerprint()
    assert len(train) + len(test) == len(data)


def test_an_unknown_rule_names_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'paper'"):
        splits.split(some_data(), "papr")


@pytest.mark.parametrize("share", [0, 1, -0.1, 2])
def test_a_share_outside_zero_and_one_is_refused(share):
    with pytest.raises(UsageError, match="between 0 and 1"):
        splits.per_user(some_data(), share=share)
