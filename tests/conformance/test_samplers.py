"""What every sampler owes: the right shapes, no known positive, and rows that stand alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.rng import Draws, Stream
from sdgar.samplers.reject import KnownItems
from sdgar.samplers.static import Uniform

SAMPLERS = {"uniform": lambda data: Uniform()}

CPU = torch.device("cpu")


def problem(seed: int = 0, users: int = 12, items: int = 30, rows: int = 150) -> Interactions:
    rng = np.random.default_rng(seed)
    # The last user knows every item but one.
    crowded = np.arange(items - 1)
    return Interactions.from_arrays(
        np.concatenate((rng.integers(0, users, rows), np.full(items - 1, users))),
        np.concatenate((rng.integers(0, items, rows), crowded)),
    )


def draw(make, data: Interactions, rows: torch.Tensor, n: int = 5, epoch: int = 1, seed: int = 0):
    known = KnownItems(data.history, data.n_items, CPU)
    return make(data).sample(
        torch.from_numpy(data.users_E)[rows],
        torch.from_numpy(data.items_E).long()[rows],
        n,
        score=lambda users_B, items_BN: torch.zeros(items_BN.shape),
        draws=Draws(seed, Stream.NEGATIVES, epoch, rows[:, None]),
        known=known,
    )


@pytest.fixture(params=sorted(SAMPLERS))
def make(request):
    return SAMPLERS[request.param]


def test_shapes_are_rows_by_negatives(make):
    data = problem()
    negatives = draw(make, data, torch.arange(len(data)), n=7)
    assert negatives.items_BN.shape == negatives.accepted_BN.shape == (len(data), 7)
    assert negatives.items_BN.dtype == torch.int64
    assert negatives.accepted_BN.dtype == torch.bool
    assert negatives.log_q_BN is None or negatives.log_q_BN.shape == (len(data), 7)


def test_no_accepted_negative_is_a_known_positive(make):
    data = problem()
    known = {(int(u), int(i)) for u, i in zip(data.users_E, data.items_E, strict=True)}
    rows = torch.arange(len(data))
    negatives = draw(make, data, rows, n=20)
    users_BN = torch.from_numpy(data.users_E)[:, None].expand(-1, 20)
    for u, i in zip(
        users_BN[negatives.accepted_BN].tolist(),
        negatives.items_BN[negatives.accepted_BN].tolist(),
        strict=True,
    ):
        assert (u, i) not in known
        assert 0 <= i < data.n_items


@given(st.integers(0, 2**64 - 1), st.permutations(range(40)), st.integers(1, 39))
def test_a_row_draws_the_same_whatever_batch_it_is_in(seed, order, cut):
    data = problem()
    for make in SAMPLERS.values():
        whole = draw(make, data, torch.arange(40), seed=seed).items_BN
        parts = [torch.tensor(part) for part in (order[:cut], order[cut:])]
        for rows in parts:
            assert torch.equal(draw(make, data, rows, seed=seed).items_BN, whole[rows])


def test_epochs_and_seeds_draw_different_numbers(make):
    data = problem(items=1000, rows=400)
    rows = torch.arange(50)
    first = draw(make, data, rows).items_BN
    assert not torch.equal(first, draw(make, data, rows, epoch=2).items_BN)
    assert not torch.equal(first, draw(make, data, rows, seed=1).items_BN)


def test_a_user_who_knows_every_item_gets_no_accepted_negative_and_no_hang(make):
    users = np.repeat([0, 1], [20, 3])
    data = Interactions.from_arrays(users, np.concatenate((np.arange(20), [0, 1, 2])))
    negatives = draw(make, data, torch.arange(len(data)))
    assert not negatives.accepted_BN[:20].any()
    assert negatives.accepted_BN[20:].all()
    assert negatives.items_BN.max() < data.n_items


def test_log_q_is_a_distribution_over_the_unknown_items(make):
    data = problem()
    negatives = draw(make, data, torch.arange(len(data)), n=200)
    if negatives.log_q_BN is None:
        pytest.skip("this sampler does not know its probabilities")
    # Every (user, item) pair that was drawn has one probability, and over the items of a user
    # they sum to at most one: to one, if all its unknown items were drawn.
    q: dict[int, dict[int, float]] = {}
    for row, user in enumerate(data.users_E.tolist()):
        for item, log_q in zip(
            negatives.items_BN[row].tolist(), negatives.log_q_BN[row].tolist(), strict=True
        ):
            assert q.setdefault(user, {}).setdefault(item, log_q) == pytest.approx(log_q)
    for user, drawn in q.items():
        unknown = data.n_items - len(data.history.of(user))
        total = sum(np.exp(list(drawn.values())))
        assert total <= 1 + 1e-5
        assert len(drawn) < unknown or total == pytest.approx(1, abs=1e-5)


def test_a_static_sampler_keeps_no_state(make):
    sampler = make(problem())
    sampler.refit(lambda u, i: torch.zeros(i.shape), seed=0, epoch=1)
    sampler.load_state(sampler.state())
