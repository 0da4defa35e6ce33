"""A sweep finds what looking at all scores finds, for many contexts at once."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.data.held_out import HeldOut
from sdgar.errors import NumericalError
from sdgar.evaluation.report import evaluate
from sdgar.ranking import sweep
from sdgar.ranking.sweep import Sweep, can_be_swept, quantised
from sdgar.ranking.topk import top_k

from .problems import model_of


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(8, 300),
    dim=st.sampled_from([1, 16, 64, 70]),
    k=st.integers(1, 12),
    scale=st.sampled_from([0.0, 0.5, 2.0]),
    memory=st.booleans(),
    seen=st.booleans(),
    blocked=st.booleans(),
)
def test_nothing_is_overlooked(seed, n_items, dim, k, scale, memory, seen, blocked):
    rng = np.random.default_rng(seed)
    model, history = model_of(rng, 7, n_items, dim, scale=scale, memory=memory)
    blocked_I = rng.random(n_items) < 0.3 if blocked else None
    users_T = rng.integers(0, 7, 5)
    options = {"seen": history if seen else None, "blocked_I": blocked_I}
    exact = top_k(model, users_T, k, **options)
    found = Sweep.of(model).top_k(model, users_T, k, **options)
    near = {"rel": 1e-4, "abs": 1e-4 * float(model_scale(model))}
    assert found.scores_TK == pytest.approx(exact.scores_TK, **near)
    same = found.items_TK == exact.items_TK
    # Where the order differs, the scores are so near that rounding decides.
    assert found.scores_TK[~same] == pytest.approx(exact.scores_TK[~same], **near)


def longest(vector_RD):
    return np.linalg.norm(vector_RD, axis=1).max()


def model_scale(model):
    factors = getattr(model, "first", model)
    return max(1.0, longest(factors.user_UD) * longest(factors.item_ID))


@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("memory", [False, True])
def test_tiles_that_are_passed_over_have_nothing_for_a_list(spread, memory):
    rng = np.random.default_rng(8)
    model, history = model_of(rng, 30, 2_000, 8, memory=memory)
    factors = model.first if memory else model
    factors.bias_I[:] = rng.standard_normal(2_000) * spread
    factors.item_ID[:] *= rng.random((2_000, 1)) * spread
    exact = top_k(model, np.arange(30), 9, seen=history)
    found = Sweep.of(model).top_k(model, np.arange(30), 9, seen=history)
    assert found.items_TK.tolist() == exact.items_TK.tolist()


def test_a_list_depends_on_its_context_alone():
    rng = np.random.default_rng(2)
    model, history = model_of(rng, 600, 90, 8)
    sweep = Sweep.of(model)
    together = sweep.top_k(model, np.arange(600), 7, seen=history)
    for user in (0, 255, 256, 599):
        alone = sweep.top_k(model, np.array([user]), 7, seen=history)
        assert alone.items_TK[0].tolist() == together.items_TK[user].tolist()
        assert alone.scores_TK[0].tobytes() == together.scores_TK[user].tobytes()


def test_models_with_and_without_a_memory_share_a_table():
    model, history = model_of(np.random.default_rng(4), 5, 60, 8)
    vectors, sweep = model.first, Sweep.of(model)
    for one in (vectors, model, vectors):  # by one thread, which keeps its buffers
        exact = top_k(one, np.arange(5), 6, seen=history)
        found = sweep.top_k(one, np.arange(5), 6, seen=history)
        assert found.items_TK.tolist() == exact.items_TK.tolist()


def test_ties_go_to_the_lower_number():
    rng = np.random.default_rng(3)
    model, _ = model_of(rng, 4, 120, 8, memory=False, alike=5)
    found = Sweep.of(model).top_k(model, np.arange(4), 12)
    for items_K, scores_K in zip(found.items_TK, found.scores_TK, strict=True):
        assert np.lexsort((items_K, -scores_K)).tolist() == list(range(12))
        assert len(set(items_K.tolist())) == 12
        # Of the last items that tie, those with the lowest numbers are listed.
        last = items_K[scores_K == scores_K[-1]]
        assert last.tolist() == list(range(last[0] // 5 * 5, last[0] // 5 * 5 + len(last)))


def test_where_few_items_are_allowed_lists_are_short():
    model, _ = model_of(np.random.default_rng(4), 3, 50, 4, memory=False)
    blocked_I = np.ones(50, bool)
    blocked_I[[7, 9]] = False
    found = Sweep.of(model).top_k(model, np.arange(3), 5, blocked_I=blocked_I)
    assert {*found.items_TK[:, :2].ravel().tolist()} == {7, 9}
    assert (found.items_TK[:, 2:] == -1).all()
    assert (found.scores_TK[:, 2:] == -np.inf).all()


@pytest.mark.parametrize(("users", "k"), [(100, 5), (3, 30), (0, 5)])
def test_any_number_of_users_and_of_items_can_be_ranked(users, k):
    model, _ = model_of(np.random.default_rng(5), 100, 30, 4, memory=False)
    exact, found = (way(model, np.arange(users), k) for way in (top_k, Sweep.of(model).top_k))
    assert np.array_equal(exact.items_TK, found.items_TK)


def test_a_sweep_serves_the_items_that_it_was_made_of():
    rng = np.random.default_rng(7)
    (one, _), (other, _) = (model_of(rng, 3, 50, 4) for _ in range(2))
    sweep = Sweep.of(one)
    assert sweep.serves(one)
    assert sweep.serves(one.first)
    assert not sweep.serves(other)
    one.first.item_ID[3, 0] = np.nan
    assert not can_be_swept(one)
    for dim in (128, 129):  # vectors may be too long
        assert can_be_swept(model_of(rng, 3, 50, dim, memory=False)[0]) == (dim == 128)


def test_integers_are_near_their_rows():
    v_RD = np.random.default_rng(8).normal(size=(20, 16)).astype(np.float32)
    v_RD[4] = 0
    c_R, q_RD = quantised(v_RD)
    assert np.abs(q_RD).max(axis=1).tolist() == [127] * 4 + [0] + [127] * 15
    assert np.abs(v_RD - c_R[:, None] * q_RD).max() <= 0.51 * c_R.max()


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_score_that_is_no_number_is_named(bad):
    rng = np.random.default_rng(6)
    model, _ = model_of(rng, 3, 50, 4, memory=False)
    model.bias_I[11] = bad
    with pytest.raises(NumericalError, match="item index 11"):
        Sweep.of(model).top_k(model, np.arange(2), 5)


def test_measuring_is_the_same_by_a_sweep(monkeypatch):
    rng = np.random.default_rng(9)
    model, history = model_of(rng, 40, 300, 8)
    items_E = np.sort(rng.integers(0, 300, (40, 2)), axis=1).ravel()
    held_out = HeldOut(np.arange(40), np.arange(0, 81, 2), items_E, 0, 0, 0, 0)
    whole = evaluate(model, held_out, seen=history, ks=(10,))
    monkeypatch.setattr(sweep, "_LARGE", 300)
    monkeypatch.setattr(sweep, "_FROM_USERS", 40)
    with patch.object(Sweep, "_best", autospec=True, side_effect=Sweep._best) as swept:
        assert evaluate(model, held_out, seen=history, ks=(10,)).means() == whole.means()
    assert swept.call_count == 1


@pytest.mark.parametrize("weight", [0.0, -0.0])
def test_an_item_with_an_empty_memory_is_still_listed(weight):
    model, history = model_of(np.random.default_rng(10), 20, 60, 8)
    model.second.weight_II.weight_E[:] = weight
    exact = top_k(model, np.arange(20), 50, seen=history)
    found = Sweep.of(model).top_k(model, np.arange(20), 50, seen=history)
    assert found.items_TK.tolist() == exact.items_TK.tolist()
