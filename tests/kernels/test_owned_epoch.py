"""Factors that go to the owners of items arrive at their places in the batch, and nowhere else."""

import numpy as np
import pytest

pytest.importorskip("numba")

from sdgar.kernels.numba import owned_epoch
from sdgar.kernels.numba.epoch import Scratch
from sdgar.kernels.numba.shared_epoch import Dealt


def scratch(u_VD, item_e, slope_e):
    """Return these factors; nothing else of a batch is looked at."""
    none = dict.fromkeys(Scratch._fields, np.zeros(0, np.int32))
    return Scratch(**none | {"u_VD": u_VD, "item_e": item_e, "slope_e": slope_e})


def dealt(place_V):
    """Return visits with these places; nothing else of them is looked at."""
    none = dict.fromkeys(Dealt._fields, np.zeros(0, np.int32))
    return Dealt(**none | {"number": 0, "place_V": place_V})


def packed(factors, s, owner_U, place_U, places, workers):
    """Return the words that each owner is told, and how many visits and entries they are."""
    visits, dim = factors.u_VD.shape
    last_R, head_R = np.zeros(workers, np.int64), np.zeros(workers, np.int64)
    count_R2 = np.zeros((workers, 2), np.int64)
    owned_epoch.count_factors(visits, s, owner_U, factors, last_R, count_R2)
    words_R = count_R2 @ [owned_epoch.HEAD + dim, owned_epoch.ENTRY]
    end_R = np.cumsum(words_R) - words_R
    real_W = np.zeros(words_R.sum(), np.float32)
    owned_epoch.pack(
        visits, s, owner_U, place_U, places, factors, last_R, head_R, end_R, real_W,
        real_W.view(np.int32),
    )  # fmt: skip
    assert (end_R == np.cumsum(words_R)).all()
    return np.split(real_W, np.cumsum(words_R)[:-1]), count_R2


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_owner_is_told_the_factors_of_its_items_alone(workers):
    rng, batch, visits, s, dim, items = np.random.default_rng(7), 9, 6, 4, 3, 11
    owner_U, place_U = rng.integers(0, workers, items), rng.permutation(items)
    factors = scratch(
        rng.random((visits, dim), np.float32),
        rng.integers(-1, items, visits * s).astype(np.int32),
        rng.random(visits * s, np.float32),
    )
    places = dealt(np.sort(rng.permutation(batch)[:visits]).astype(np.int32))
    told, count_R2 = packed(factors, s, owner_U, place_U, places, workers)
    met = factors.item_e.reshape(visits, s)
    for r, words in enumerate(told):
        mine = (met >= 0) & (owner_U[met] == r)
        assert count_R2[r].tolist() == [mine.any(axis=1).sum(), mine.sum()]
        found = scratch(
            np.full((batch, dim), -1, np.float32), np.zeros(batch * s, np.int32),
            np.full(batch * s, -1, np.float32),
        )  # fmt: skip
        owned_epoch.unpack(batch, s, words, words.view(np.int32), found)
        expected = np.full((batch, s), -1)
        expected[places.place_V] = np.where(mine, place_U[met], -1)
        assert found.item_e.reshape(batch, s).tolist() == expected.tolist()
        at = expected >= 0
        slopes, vectors = np.zeros((batch, s), np.float32), np.zeros((batch, dim), np.float32)
        slopes[places.place_V] = factors.slope_e.reshape(visits, s)
        vectors[places.place_V] = factors.u_VD
        assert (found.slope_e.reshape(batch, s)[at] == slopes[at]).all()
        assert (found.u_VD[at.any(axis=1)] == vectors[at.any(axis=1)]).all()
