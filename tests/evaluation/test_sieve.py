"""A sieve finds what looking at all scores finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.data.history import History
from sdgar.errors import NumericalError
from sdgar.maths.rows import Rows
from sdgar.models.factors import Factors
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.sum import Sum
from sdgar.ranking.sieve import Sieve, can_be_sieved, quantised
from sdgar.ranking.topk import top_k

pytest.importorskip("numba")


def model_of(rng, n_users, n_items, dim, *, scale=1.0, memory=True, alike=1):
    """Make up a model; of ``alike`` items in a row all have one vector, so that they tie."""
    item = rng.normal(size=(n_items, dim)) * rng.lognormal(0, scale, (n_items, 1))
    item = item[np.arange(n_items) // alike * alike]
    bias = rng.normal(size=n_items)[np.arange(n_items) // alike * alike]
    user = rng.normal(size=(n_users, dim)) * rng.lognormal(0, scale, (n_users, 1))
    factors = Factors(*(a.astype(np.float32) for a in (user, item, bias)))
    if not memory:
        return factors, None
    pairs = np.unique(rng.integers(0, n_users * n_items, 4 * n_users))
    history = History.of_pairs(pairs // n_items, pairs % n_items, n_users)
    start = np.arange(0, 4 * n_items, 4, dtype=np.int64)
    start = np.append(start, 4 * n_items)
    column = np.concatenate([np.sort(rng.permutation(n_items)[:4]) for _ in range(n_items)])
    weight = rng.normal(size=4 * n_items).astype(np.float32)
    weights = Rows(start, column.astype(np.int32), weight)
    return Sum(factors, LocalItemWeights(history, weights), 2.0), history


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(8, 300),
    dim=st.sampled_from([1, 3, 16, 40]),
    k=st.integers(1, 12),
    scale=st.sampled_from([0.0, 0.5, 2.0]),
    memory=st.booleans(),
    seen=st.booleans(),
    blocked=st.booleans(),
)
def test_nothing_is_overlooked(seed, n_items, dim, k, scale, memory, seen, blocked):
    rng = np.random.default_rng(seed)
    n_users = 7
    model, history = model_of(rng, n_users, n_items, dim, scale=scale, memory=memory)
    blocked_I = rng.random(n_items) < 0.3 if blocked else None
    users_T = rng.integers(0, n_users, 5)
    options = {"seen": history if seen else None, "blocked_I": blocked_I}
    exact = top_k(model, users_T, k, **options)
    found = Sieve.of(model).top_k(model, users_T, k, **options)
    assert found.scores_TK == pytest.approx(exact.scores_TK, rel=1e-4, abs=1e-4)
    same = found.items_TK == exact.items_TK
    # Where the order differs, the scores are so near that rounding decides.
    assert np.allclose(found.scores_TK[~same], exact.scores_TK[~same], rtol=1e-5, atol=1e-5)


def test_ties_go_to_the_lower_number():
    rng = np.random.default_rng(3)
    model, _ = model_of(rng, 4, 120, 8, memory=False, alike=5)
    found = Sieve.of(model).top_k(model, np.arange(4), 12)
    for items_K, scores_K in zip(found.items_TK, found.scores_TK, strict=True):
        order = np.lexsort((items_K, -scores_K))
        assert order.tolist() == list(range(12))
        assert len(set(items_K.tolist())) == 12


def test_who_may_be_shown_little_gets_little():
    rng = np.random.default_rng(4)
    model, _ = model_of(rng, 3, 50, 4, memory=False)
    blocked_I = np.ones(50, bool)
    blocked_I[[7, 9]] = False
    found = Sieve.of(model).top_k(model, np.arange(3), 5, blocked_I=blocked_I)
    assert {*found.items_TK[:, :2].ravel().tolist()} == {7, 9}
    assert (found.items_TK[:, 2:] == -1).all()
    assert (found.scores_TK[:, 2:] == -np.inf).all()


def test_many_contexts_and_long_lists_are_ranked_as_ever():
    rng = np.random.default_rng(5)
    model, _ = model_of(rng, 100, 30, 4, memory=False)
    sieve = Sieve.of(model)
    for users_T, k in ((np.arange(100), 5), (np.arange(3), 30), (np.arange(0), 5)):
        exact, found = top_k(model, users_T, k), sieve.top_k(model, users_T, k)
        assert np.array_equal(exact.items_TK, found.items_TK)


def test_a_score_that_is_no_number_is_named():
    rng = np.random.default_rng(6)
    model, _ = model_of(rng, 3, 50, 4, memory=False)
    sieve = Sieve.of(model)
    model.bias_I[11] = np.inf
    with pytest.raises(NumericalError, match="item index 11"):
        sieve.top_k(model, np.arange(2), 5)
    model.item_ID[3, 0] = np.nan
    assert not can_be_sieved(model)


def test_a_sieve_serves_the_items_it_was_made_of():
    rng = np.random.default_rng(7)
    one, _ = model_of(rng, 3, 50, 4)
    other, _ = model_of(rng, 3, 50, 4)
    sieve = Sieve.of(one)
    assert sieve.serves(one)
    assert sieve.serves(one.first)
    assert not sieve.serves(other)


def test_integers_are_near_their_rows():
    rng = np.random.default_rng(8)
    v_RD = rng.normal(size=(20, 16)).astype(np.float32)
    v_RD[4] = 0
    c_R, q_RD = quantised(v_RD)
    assert np.abs(q_RD).max(axis=1).tolist() == [127] * 4 + [0] + [127] * 15
    assert np.abs(v_RD - c_R[:, None] * q_RD).max() <= 0.51 * c_R.max()
