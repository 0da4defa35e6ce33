"""A few users are ranked as many are: the same lists, whoever asks beside them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sdgar.data.history import History
from sdgar.errors import NumericalError
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.factors import Factors
from sdgar.models.item_weights import LocalItemWeights, SparseItemWeights
from sdgar.models.model import Model
from sdgar.models.parts import Parts
from sdgar.models.sum import Sum
from sdgar.ranking import few, topk
from sdgar.ranking.topk import TopK, top_k

pytest.importorskip("numba")
CPU = torch.device("cpu")


def model_of(
    seed: int, users: int = 90, items: int = 203, dim: int = 5, *, whole: bool = False
) -> tuple[Sum, History]:
    """Give a model with a memory; with ``whole`` all scores are whole numbers, and many tie."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> torch.Tensor:
        if whole:
            return torch.randint(-2, 3, shape, generator=generator).float()
        return torch.randn(*shape, generator=generator)

    pairs = rng.integers(0, users, 600), rng.integers(0, items, 600)
    history = History.of_pairs(*pairs, users)
    own = SparseMatrix.of(history.indptr_U1, history.items_E, items, device=CPU)
    named = History.of_pairs(rng.integers(0, items, 900), rng.integers(0, items, 900), items)
    weight_E = numbers(len(named.items_E)).numpy()
    weight_II = SparseMatrix.of(named.indptr_U1, named.items_E, items, weight_E, device=CPU)
    factors = Factors(numbers(users, dim), numbers(items, dim), numbers(items))
    return Sum(factors, LocalItemWeights(own, weight_II), 2.0), history


def by_blocks(model: Model, *args, **kwargs) -> TopK:
    """Rank as many users are ranked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk, "few_parts", lambda *_: None)
        return top_k(model, *args, **kwargs)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 64),
    st.sampled_from([4, 5, 31, 64, 65, 203]),
    st.booleans(),
    st.booleans(),
)
def test_a_few_get_the_lists_that_they_get_among_many(seed, n, items, memory, blocked):
    model, history = model_of(seed, items=items, whole=True)
    model = model if memory else model.first
    rng = np.random.default_rng(seed)
    users_T = rng.integers(0, 90, n)
    blocked_I = rng.random(items) < 0.3 if blocked else None
    found = top_k(model, users_T, 7, seen=history, blocked_I=blocked_I)
    wanted = by_blocks(model, users_T, 7, seen=history, blocked_I=blocked_I)
    assert_array_equal(found.items_TK, wanted.items_TK)
    assert_array_equal(found.scores_TK, wanted.scores_TK)


def test_scores_are_those_of_the_model_to_rounding():
    model, history = model_of(3, dim=37)
    users_T = np.arange(64)
    found, wanted = (rank(model, users_T, 20, seen=history) for rank in (top_k, by_blocks))
    assert_allclose(found.scores_TK, wanted.scores_TK, rtol=1e-5, atol=1e-5)
    assert (found.items_TK == wanted.items_TK).mean() > 0.99


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_user_gets_the_same_bytes_in_any_company_and_with_any_threads(threads, monkeypatch):
    model, history = model_of(4, dim=37)
    monkeypatch.setattr("sdgar.machine.cores.threads", lambda: 1)
    all_T = top_k(model, np.arange(64), 9, seen=history)
    monkeypatch.setattr("sdgar.machine.cores.threads", lambda: threads)
    for users_T in (np.arange(64), np.array([5, 3]), np.arange(7, 20)):
        found = top_k(model, users_T, 9, seen=history)
        assert found.items_TK.tobytes() == all_T.items_TK[users_T].tobytes()
        assert found.scores_TK.tobytes() == all_T.scores_TK[users_T].tobytes()


def test_threads_that_rank_at_the_same_time_do_not_share_their_room():
    model, history = model_of(5)
    wanted = [top_k(model, np.arange(n, n + 20), 5, seen=history) for n in range(8)]
    found: list[list[TopK]] = [[] for _ in range(8)]

    def ask(n: int) -> None:
        for _ in range(20):
            found[n].append(top_k(model, np.arange(n, n + 20), 5, seen=history))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        for one in found[n]:
            assert_array_equal(one.items_TK, wanted[n].items_TK)


def test_room_that_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(few, "_KEPT", 1000)
    monkeypatch.setattr(few, "_own", threading.local())
    few._room(4, 250)
    few._room(4, 1000)
    assert few._own.room.size == 1000
    few._room(2, 3)
    assert few._own.room.size == 1000


def test_more_scores_than_memory_holds_are_ranked_in_blocks():
    model, _ = model_of(6)
    assert few.few_parts(model, 64, 4 * 64 * 203) is not None
    assert few.few_parts(model, 64, 4 * 64 * 203 - 1) is None
    assert few.few_parts(model, 65, 1 << 30) is None


def test_models_of_other_parts_are_ranked_as_before():
    model, _ = model_of(7)
    memory = model.second
    assert isinstance(memory, LocalItemWeights)
    others = [
        memory,
        Sum(model.first, SparseItemWeights(memory.history, memory.weight_II), 1.0),
        Sum(model, memory, 1.0),
        Factors(torch.zeros(3, 0), torch.zeros(5, 0), torch.zeros(5)),
    ]
    assert [Parts.of(one) for one in others] == [None] * 4
    first = model.first
    assert isinstance(first, Factors)
    wide = Factors(first.user_UD.double(), first.item_ID.double(), first.bias_I.double())
    assert few.few_parts(wide, 2, 1 << 30) is None
    assert_array_equal(
        top_k(wide, np.arange(3), 4).items_TK, by_blocks(first, np.arange(3), 4).items_TK
    )


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_named(n, value):
    model, _ = model_of(8)
    assert isinstance(model.first, Factors)
    model.first.bias_I[77] = value
    with pytest.raises(NumericalError, match="user index 4 for item index 77"):
        top_k(model, np.array([4, 5, 6][:n]), 5)


def test_users_that_the_model_has_not_are_refused():
    model, _ = model_of(9)
    for users_T in ([90], [1, 90]):
        with pytest.raises(IndexError):
            top_k(model, np.array(users_T), 5)
