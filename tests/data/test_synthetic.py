"""Synthetic data: exact margins, and a taste worth learning."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import sdgar
from sdgar.data import synthetic
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import PRESETS, Shape, generate
from sdgar.errors import UsageError

SMALL = Shape(users=60, items=80, interactions=900, concentration=0.2)

TABLE_1 = {
    "citeulike": (7_947, 25_975, 134_860, 6.53e-04, 0.3156),
    "gowalla": (29_858, 40_988, 1_027_464, 8.40e-04, 0.2915),
    "amazon": (130_380, 128_939, 2_415_650, 1.44e-04, 0.3298),
    "movielens": (60_655, 8_939, 2_105_971, 3.88e-03, 0.6198),
    "echonest": (217_966, 60_654, 4_422_471, 3.35e-04, 0.4563),
}


@cache
def made(name: str) -> Interactions:
    return generate(PRESETS[name], seed=0)


@pytest.fixture(scope="module")
def demo() -> Interactions:
    return made("demo")


def assert_exact(data: Interactions, shape: Shape) -> None:
    """Every user and item occurs, no pair twice, arrays in the order that Interactions promises."""
    assert (data.n_users, data.n_items, len(data)) == (
        shape.users,
        shape.items,
        shape.interactions,
    )
    assert np.diff(data.indptr_U1).min() >= shape.min_per_user
    assert np.bincount(data.items_E, minlength=shape.items).min() >= 1
    assert (np.diff(data.users_E * shape.items + data.items_E) > 0).all()
    assert data.indptr_U1.dtype == np.int64
    assert data.items_E.dtype == np.int32
    assert data.time_E.dtype == np.int64
    assert len(data.time_E) == len(data)
    assert data.account.read == data.account.kept == len(data)


def rebuilt(data: Interactions) -> Interactions:
    """The same rows shuffled and read back the way a file would be."""
    assert data.time_E is not None
    shuffled_E = np.random.default_rng(5).permutation(len(data))
    return Interactions.from_arrays(
        data.users.at(data.users_E)[shuffled_E],
        data.items.at(data.items_E)[shuffled_E],
        time=data.time_E[shuffled_E],
    )


# Margins -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive if shape.interactions > 2_000_000 else ())
        for name, shape in PRESETS.items()
    ],
)
def test_a_preset_has_its_users_items_interactions_and_concentration(name: str) -> None:
    shape = PRESETS[name]
    data = made(name)
    assert_exact(data, shape)
    assert abs(data.stats()["concentration"] - shape.concentration) < 0.001


@pytest.mark.parametrize("name", TABLE_1)
def test_the_shapes_are_those_of_table_1(name: str) -> None:
    shape = PRESETS[name]
    users, items, interactions, density, concentration = TABLE_1[name]
    assert (shape.users, shape.items, shape.interactions) == (users, items, interactions)
    assert shape.concentration == concentration
    assert interactions / (users * items) == pytest.approx(density, rel=5e-3)


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
@pytest.mark.parametrize(
    "shape",
    [
        SMALL,
        Shape(users=80, items=60, interactions=1_200, concentration=0.2),  # pairs greedily
        Shape(users=20, items=40, interactions=300, concentration=0.11, min_per_user=1),
    ],
)
def test_a_small_shape_has_its_sizes_too(shape: Shape, seed: int) -> None:
    data = generate(shape, seed=seed)
    assert_exact(data, shape)
    # One interaction more or less is all that whole numbers leave open, and ties double it.
    off = abs(data.stats()["concentration"] - shape.concentration) * shape.interactions
    assert off <= max(2.0, 0.01 * shape.interactions)


@pytest.mark.parametrize("rounds", [0, 1])
def test_greedy_pairing_also_ends_in_distinct_pairs_and_the_same_degrees(
    monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    by_swaps = generate(SMALL, seed=3)
    monkeypatch.setattr(synthetic, "_SWAP_ROUNDS", rounds)
    greedy = generate(SMALL, seed=3)
    assert_exact(greedy, SMALL)
    np.testing.assert_array_equal(by_swaps.indptr_U1, greedy.indptr_U1)
    np.testing.assert_array_equal(np.bincount(by_swaps.items_E), np.bincount(greedy.items_E))
    assert (by_swaps.items_E != greedy.items_E).any()


# Activity, popularity, time ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo", "citeulike", "gowalla"])
def test_activity_is_heavy_tailed(name: str) -> None:
    degree_U = np.diff(made(name).indptr_U1)
    assert np.median(degree_U) < 0.7 * degree_U.mean()
    assert degree_U.max() > 7 * degree_U.mean()


def test_popularity_falls_as_a_power_of_the_shifted_rank(demo: Interactions) -> None:
    shape = PRESETS["demo"]
    degree_I = np.sort(np.bincount(demo.items_E))[::-1]
    rank_I = np.arange(1, shape.items + 1) + shape.head * shape.items
    log_rank_I, log_excess_I = np.log(rank_I[:600]), np.log(degree_I[:600] - 1)
    slope, intercept = np.polyfit(log_rank_I, log_excess_I, 1)
    assert slope < -0.5
    assert np.abs(slope * log_rank_I + intercept - log_excess_I).max() < 0.05


def test_an_item_is_not_popular_for_its_number(demo: Interactions) -> None:
    degree_I = np.bincount(demo.items_E)
    assert abs(np.corrcoef(np.arange(len(degree_I)), degree_I)[0, 1]) < 0.1


def test_times_lie_in_two_years_and_come_in_sessions(demo: Interactions) -> None:
    assert demo.time_E is not None
    start, end = (int(np.datetime64(d, "us").astype(int)) for d in ("2022-01-01", "2024-01-01"))
    assert demo.time_E.min() >= start
    assert demo.time_E.max() < end
    assert np.ptp(demo.time_E) > 0.95 * (end - start)
    order_E = np.lexsort((demo.time_E, demo.users_E))
    gap_E = np.diff(demo.time_E[order_E])[np.diff(demo.users_E[order_E]) == 0]
    within_an_hour = gap_E < 3_600_000_000
    assert 0.6 < within_an_hour.mean() < 0.95


# Randomness and ids ------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_data(demo: Interactions) -> None:
    assert generate(PRESETS["demo"], seed=0).fingerprint() == demo.fingerprint()


@pytest.mark.parametrize("other", [1, 2**32, 2**63])
def test_another_seed_gives_other_pairs_activity_and_popularity(
    demo: Interactions, other: int
) -> None:
    data = generate(PRESETS["demo"], seed=other)
    assert (data.indptr_U1 != demo.indptr_U1).any()
    assert (data.items_E != demo.items_E).any()
    assert (np.bincount(data.items_E) != np.bincount(demo.items_E)).any()


def test_the_demo_has_ids_that_people_can_read(demo: Interactions) -> None:
    assert demo.users.values[41] == "user-0042"
    assert demo.items.values[136] == "item-0137"
    assert demo.users.kind == demo.items.kind == "text"


@pytest.mark.parametrize("shape", [SMALL, replace(SMALL, ids="text")])
def test_rows_written_out_and_read_back_are_the_same_data(shape: Shape) -> None:
    data = generate(shape, seed=4)
    assert rebuilt(data).fingerprint() == data.fingerprint()


def test_text_ids_ascend_past_four_digits() -> None:
    shape = Shape(users=2, items=12_000, interactions=12_000, concentration=0.05, ids="text")
    data = generate(shape, seed=0)
    assert data.items.values[-1] == "item-12000"
    assert (data.items.values[1:] > data.items.values[:-1]).all()


# Taste -------------------------------------------------------------------------------------


def ndcg(system, data: Interactions) -> float:
    train, test = sdgar.split(data, "paper", seed=0)
    return system.fit(train).evaluate(test).means()["ndcg@20"]


@pytest.mark.parametrize("system", [sdgar.ItemKNN(), sdgar.EASE(device="cpu")])
def test_on_the_demo_taste_beats_popularity_by_far(demo: Interactions, system) -> None:
    popular = ndcg(sdgar.MostPopular(), demo)
    assert popular > 0.05
    assert ndcg(system, demo) > 1.8 * popular


def test_without_taste_popularity_is_the_best_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margin above comes from the taste model, not from the degrees."""
    monkeypatch.setattr(synthetic, "_MAINSTREAM", 1.0)
    data = generate(PRESETS["demo"], seed=0)
    assert ndcg(sdgar.EASE(device="cpu"), data) < 1.05 * ndcg(sdgar.MostPopular(), data)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, None])
def test_a_seed_is_an_integer_of_64_bits(seed: object) -> None:
    with pytest.raises(UsageError, match="seed must be"):
        generate(SMALL, seed=seed)  # type: ignore[arg-type]
