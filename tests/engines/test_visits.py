"""The order of an epoch: every positive once, with others of its context."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.engines.visits import STRIDES, Batch, Visits
from sdgar.maths.rng import Permutation, Stream

CPU = torch.device("cpu")
MANY = pytest.mark.parametrize("per_visit", [1, 2, 4, 1000])


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Contexts with 1 to 40 positives, among them multiples of 2 and 4 and none of them."""
    rng = np.random.default_rng(0)
    count_U = np.concatenate((np.arange(1, 41), rng.integers(1, 10, 60)))
    users_E = np.repeat(np.arange(len(count_U)), count_U)
    items_E = np.concatenate([rng.choice(60, count, replace=False) for count in count_U])
    return Interactions.from_arrays(users_E, items_E)


def whole_epoch(visits: Visits, epoch: int) -> Batch:
    return visits.batch(epoch, 0, len(visits))


def dealt(data: Interactions, per_visit: int, epoch: int, seed: int = 5) -> list[list[int]]:
    """Rows by visit."""
    batch = whole_epoch(Visits(data, per_visit, seed, CPU), epoch)
    rows = batch.rows_B.tolist()
    ends = np.searchsorted(batch.visit_B.numpy(), np.arange(1, len(batch.first_V) + 1)).tolist()
    return [rows[first:last] for first, last in zip([0, *ends[:-1]], ends, strict=True)]


@MANY
def test_the_negatives_of_an_epoch_have_addresses_of_their_own(data, per_visit):
    batch = whole_epoch(Visits(data, per_visit, 5, CPU), 3)
    assert len(batch.first_V.unique()) == len(batch.first_V)
    # The address is the first row of the visit itself.
    starts = torch.searchsorted(batch.visit_B, torch.arange(len(batch.first_V)))
    assert torch.equal(batch.rows_B[starts], batch.first_V)


@MANY
def test_batches_are_parts_of_the_epoch(data, per_visit):
    visits = Visits(data, per_visit, 5, CPU)
    whole = whole_epoch(visits, 2)
    parts = [visits.batch(2, start, start + 7) for start in range(0, len(visits), 7)]
    assert torch.equal(torch.cat([part.rows_B for part in parts]), whole.rows_B)
    assert torch.equal(torch.cat([part.first_V for part in parts]), whole.first_V)
    assert torch.equal(
        torch.cat([part.visit_B + 7 * i for i, part in enumerate(parts)]), whole.visit_B
    )
    assert len(parts[-1].first_V) == (len(visits) - 1) % 7 + 1


def test_with_one_positive_a_visit_the_order_is_a_permutation_of_the_rows(data):
    batch = whole_epoch(Visits(data, 1, 5, CPU), 4)
    order = Permutation.of(len(data), seed=5, stream=Stream.SHUFFLE, epoch=4)
    assert batch.rows_B.tolist() == order(np.arange(len(data))).tolist()
    assert torch.equal(batch.first_V, batch.rows_B)
    assert torch.equal(batch.visit_B, torch.arange(len(data)))


@pytest.mark.parametrize("per_visit", [2, 4])
def test_positives_get_other_company_each_epoch_and_with_each_seed(data, per_visit):
    decks = [
        {frozenset(rows) for rows in dealt(data, per_visit, epoch, seed)}
        for epoch, seed in ((1, 5), (2, 5), (3, 5), (1, 6))
    ]
    crowd = np.diff(data.indptr_U1)[data.users_E] > 8
    for a in range(4):
        for b in range(a):
            same = {row for visit in decks[a] & decks[b] for row in visit}
            # A context of 9 or more has at least 4 strides to be dealt with; half or more of
            # its positives meet others.
            assert sum(crowd[row] for row in same) < crowd.sum() / 2


@MANY
def test_the_order_is_another_each_epoch(data, per_visit):
    first, again, second = (
        whole_epoch(Visits(data, per_visit, 5, CPU), epoch).rows_B for epoch in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@given(count=st.integers(1, 10**6))
def test_a_stride_meets_every_positive_of_a_context(count):
    """A prime above the count shares no factor with it."""
    for stride in STRIDES:
        assert np.gcd(stride, count) == 1


@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    per_visit=st.integers(1, 13),
    epoch=st.integers(1, 77),
)
def test_any_contexts_are_dealt_whole_and_only_a_last_visit_is_smaller(counts, per_visit, epoch):
    users_E = np.repeat(np.arange(len(counts)), counts)
    items_E = np.concatenate([np.arange(count) for count in counts])
    data = Interactions.from_arrays(users_E, items_E)
    visits = dealt(data, per_visit, epoch)
    assert len(Visits(data, per_visit, 5, CPU)) == len(visits)
    assert sorted(row for rows in visits for row in rows) == list(range(len(data)))
    assert all(len(set(data.users_E[rows].tolist())) == 1 for rows in visits)
    # Only the last visit of a context is smaller than the others.
    full = [size for n in counts for size in [per_visit] * (n // per_visit) + [n % per_visit]]
    assert sorted(map(len, visits)) == sorted(size for size in full if size)
