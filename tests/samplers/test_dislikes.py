"""Dislikes are drawn as negatives by the exact mixture that log Q speaks of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sdgar
from sdgar.contracts import Positives
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.engines.fused import plan
from sdgar.errors import DataError, UsageError
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers.closed_form import Frozen
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.dislikes import WithDislikes
from sdgar.samplers.static import PairLookup, Popularity, Uniform
from sdgar.systems.recipe import recipe_of

P = 0.3
QUICK = {"epochs": 1, "dim": 2, "early_stopping": False, "engine": "eager"}
CPU = torch.device("cpu")


def rated(n_users: int = 6, n_items: int = 9) -> Interactions:
    """Every second user dislikes some items; item i is known to all whose number it divides."""
    users, items = np.nonzero(np.add.outer(np.arange(n_users), np.arange(n_items)) % 3 == 0)
    data = Interactions.from_arrays(users, items)
    low_users, low_items = np.nonzero(np.add.outer(np.arange(n_users), np.arange(n_items)) % 3 == 1)
    even = low_users % 2 == 0
    return data.with_seen(low_users[even], low_items[even])


def bases(data: Interactions) -> dict:
    count_I = torch.from_numpy(np.bincount(data.items_E, minlength=data.n_items) + data.items_E[:9])
    return {
        "uniform": Uniform(),
        "popularity": Popularity(count_I),
        "decomposable": Decomposable(data.n_users, data.n_items, states=3, seed=0, update=Frozen()),
    }


@pytest.mark.parametrize("name", ["uniform", "popularity", "decomposable"])
def test_log_q_sums_to_one_and_is_what_is_drawn(name):
    data = rated()
    sampler = WithDislikes(bases(data)[name], data, P)
    known = PairLookup(data.history, data.n_items, CPU)
    users_U = torch.arange(data.n_users)
    items_UI = torch.arange(data.n_items).expand(data.n_users, -1)
    can_be_UI = ~known.contains(users_U[:, None].expand_as(items_UI), items_UI)
    q_UI = sampler.log_q(users_U, items_UI, known).exp().where(can_be_UI, 0)
    assert torch.allclose(q_UI.sum(dim=1), torch.ones(data.n_users), atol=1e-4)
    for user in range(data.n_users):
        n = 20_000
        draws = Draws(3, Stream.NEGATIVES, 1, torch.tensor([[user]]))
        drawn = sampler.sample(
            Positives(torch.tensor([user]), torch.tensor([0]), None, draws, known), n
        )
        met_I = np.bincount(drawn.items_BN[0][drawn.accepted_BN[0]], minlength=data.n_items) / n
        assert np.abs(met_I - q_UI[user].numpy()).max() < 0.02
        log_q = sampler.log_q(torch.tensor([user]), drawn.items_BN, known)
        assert torch.equal(drawn.log_q_BN, log_q)


def test_systems_draw_them_or_say_why_not():
    data = rated()
    for kind in (sdgar.BPR, sdgar.DNS, sdgar.SDGAR, sdgar.SDSoftmax, sdgar.AOBPR):
        model = kind(**QUICK, sampler__dislikes=P)
        assert isinstance(recipe_of(model).compose(data, seed=0).sampler, WithDislikes)
        model.fit(data)
    for kind in (sdgar.WARP, sdgar.CML):
        with pytest.raises(UsageError, match="estimates ranks from draws that are uniform"):
            kind(**QUICK, sampler__dislikes=P).fit(data)
    with pytest.raises(UsageError, match="at least 0 and below 1"):
        sdgar.BPR(**QUICK, sampler__dislikes=1.0).fit(data)
    bare = Interactions.from_arrays([1, 1, 2], [1, 2, 3])
    with pytest.raises(DataError, match="no dislikes to draw negatives from"):
        sdgar.BPR(**QUICK, sampler__dislikes=P).fit(bare)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (sdgar.BPR, None), (sdgar.SDGAR, None), (sdgar.SDSoftmax, None), (sdgar.AOBPR, None),
        (sdgar.DNS, "it mixes dislikes with Uniform, Popularity"),
    ],
)  # fmt: skip
def test_the_fused_engine_of_the_cpu_draws_them_or_says_why_not(kind, why):
    system = recipe_of(kind(**QUICK, sampler__dislikes=P)).compose(rated(), seed=0)
    said = plan.CPU.misfit(system)
    assert said is None if why is None else str(said).startswith(why)
    assert "no kernel for the sampler WithDislikes" in str(plan.GPU.misfit(system))


def test_dislikes_of_the_future_are_not_learned_from():
    rows = {
        "user": [1, 1, 1, 2, 2, 2, 1], "item": [1, 2, 3, 1, 2, 3, 4],
        "rating": [5, 1, 5, 5, 5, 1, 5], "time": [10, 20, 90, 30, 40, 95, 50],
    }  # fmt: skip
    data = sdgar.read(rows, min_rating=4)
    assert len(data.seen.items_E) == 2
    for part in (splits.split(data, "time:0.2"), *sdgar.folds(data, "date:60000000")):
        assert part.train.users.at(part.train.seen.users_E).tolist() == [1]
        assert part.train.items.at(part.train.seen.items_E).tolist() == [2]
