"""Negatives of the compiled loop: the samplers' own, address by address."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.fused import cpu_records
from sdgar.engines.fused.plan import CPU as PLAN
from sdgar.engines.fused.records import DrawSettings
from sdgar.kernels.numba import draws as numba_draws
from sdgar.kernels.numba import known as numba_pairs
from sdgar.kernels.numba.epoch import blocks
from sdgar.maths.optimizers import SGD
from sdgar.maths.rng import Stream, tail
from sdgar.objectives import WeightedLogistic
from sdgar.samplers.closed_form import ClosedForm, ClosedFormSettings
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.static import Popularity, Uniform

from ..positives import positives_of

CPU = torch.device("cpu")


@numba.njit
def numba_draw(proposal, known, tail, block):
    visits = len(block.user_V)
    numba_draws.start_draws(proposal, known, tail, visits, block)
    numba_draws.continue_draws(proposal, known, visits, block)
    numba_draws.finish_draws(proposal, known, tail, visits, block)
    numba_draws.probability(proposal, known, visits, block)


@numba.njit
def numba_known(known, user, item):
    return numba_pairs.is_known(known, user, item)


@numba.njit
def numba_nth_unknown(sorted_E, first, last, r):
    return numba_pairs.nth_unknown(sorted_E, first, last, r)


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Every item but one is known to context 3, and all items to context 4."""
    rng = np.random.default_rng(0)
    liked = rng.random((20, 16)) < 0.25
    liked[:, 15] |= rng.random(20) < 0.2
    liked[3, :15], liked[3, 15], liked[4] = True, False, True
    return Interactions.from_arrays(*np.nonzero(liked))


def sampler_of(name: str, data: Interactions) -> Uniform | Popularity | Decomposable:
    if name == "uniform":
        return Uniform()
    if name == "popularity":
        return Popularity(torch.from_numpy(np.bincount(data.items_E, minlength=data.n_items)))
    update = ClosedForm(temperature=0.5, settings=ClosedFormSettings(samples=8))
    made = Decomposable(data.n_users, data.n_items, 6, seed=1, update=update)
    if name == "decomposable, updated":
        made.refit(lambda users, items: torch.sin(users[:, None] + 3.0 * items), seed=1, epoch=1)
    return made


def drawn(sampler, data: Interactions, n: int, seed: int, epoch: int):
    """What the kernels draw for every row of the data, and with which probability."""
    system = System(
        name="test",
        discriminator=MatrixFactorization(2, 2, 2, seed=0),
        sampler=sampler,
        objective=WeightedLogistic(0.5),
        optimizer=SGD(1.0),
        n_negatives=n,
        batch_size=1,
        l2=0.0,
    )
    (block,) = blocks(1, len(data), 1, n)
    block.user_V[:], block.row_VP[:, 0] = data.users_E, np.arange(len(data))
    numba_draw(
        PLAN.draw(system, DrawSettings(n, np.uint64(seed), data.n_items)),
        cpu_records.known_of(data),
        tail(Stream.NEGATIVES, epoch),
        block,
    )
    return block.item_VN, block.ok_VN, block.q_VN


@pytest.mark.parametrize(("seed", "epoch"), [(5, 1), (2**64 - 1, 2**24 - 1)])
@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("name", ["uniform", "popularity", "decomposable", "decomposable, updated"])
def test_draws_are_those_of_the_sampler_address_by_address(data, name, n, seed, epoch):
    sampler = sampler_of(name, data)
    expected = sampler.sample(positives_of(data, seed=seed, epoch=epoch), n)
    item_VN, ok_VN, q_VN = drawn(sampler, data, n, seed, epoch)
    assert np.array_equal(item_VN, expected.items_BN.numpy())
    assert np.array_equal(ok_VN, expected.accepted_BN.numpy())
    np.testing.assert_allclose(q_VN, expected.log_q_BN.exp().numpy(), rtol=1e-5)
    # All three kinds of context are there: with many, one and no negative.
    assert not ok_VN[data.users_E == 4].any()
    assert set(item_VN[data.users_E == 3][ok_VN[data.users_E == 3]].tolist()) == {15}
    assert ok_VN[data.users_E > 4].mean() > 0.9


PAIRS = st.sets(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=200)


@given(pairs=PAIRS, bytes_left=st.sampled_from([None, 1, 2, 8]))
def test_the_filter_never_misses_a_known_pair_and_never_makes_one_up(pairs, bytes_left):
    """With far too few bits it is slow, but right."""
    users, items = np.array(sorted(pairs)).T
    data = Interactions.from_arrays(users, items)
    known = cpu_records.known_of(data)
    if bytes_left is not None:
        bits = np.zeros(bytes_left, np.uint8)
        numba_pairs.fill(data.indptr_U1, data.items_E, 0, bits)
        known = known._replace(n_items=0, bits=bits)
    here = set(zip(data.users_E.tolist(), data.items_E.tolist(), strict=True))
    for user in range(data.n_users):
        for item in range(data.n_items):
            assert numba_known(known, user, item) == ((user, item) in here)


def test_the_filter_excludes_nearly_all_other_pairs():
    """16 bits or more a pair: at most 1 in 16 of all other pairs finds its bit set."""
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 4000 * 2000, 20_000))
    data = Interactions.from_arrays(pairs // 2000, pairs % 2000)
    known = cpu_records.known_of(data)
    assert known.n_items == 0
    assert len(known.bits) * 8 >= 16 * len(data)
    assert np.unpackbits(known.bits).mean() <= 1 / 16
    # As many set bits as pairs, up to collisions: the hash must not fold pairs together.
    assert np.unpackbits(known.bits).sum() > 0.9 * len(data)


def test_where_pairs_are_few_each_has_a_bit_of_its_own():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 200 * 100, 2_000))
    data = Interactions.from_arrays(pairs // 100, pairs % 100)
    known = cpu_records.known_of(data)
    assert known.n_items == data.n_items
    bits = np.unpackbits(known.bits, bitorder="little")[: data.n_users * data.n_items]
    expected = np.zeros((data.n_users, data.n_items))
    expected[data.users_E, data.items_E] = 1
    np.testing.assert_array_equal(bits.reshape(expected.shape), expected)


@given(known=st.sets(st.integers(0, 60), max_size=61), before=st.integers(0, 5))
def test_the_rth_unknown_item_is_found_by_counting(known, before):
    """In the middle of an array: what stands before and after belongs to others."""
    items = sorted(known)
    sorted_E = np.array([60] * before + items + [0, 0], np.int32)
    for r, item in enumerate(i for i in range(61) if i not in known):
        assert numba_nth_unknown(sorted_E, before, before + len(items), r) == item
