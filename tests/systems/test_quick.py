"""What SD-Softmax starts from, with a memory: made of parts that are known on their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sdgar
from sdgar.discriminators.bounded import Cosine, start
from sdgar.models.factors import Factors
from sdgar.models.sum import Sum
from sdgar.systems.recipe import recipe_of


@pytest.fixture(scope="module")
def parts():
    return tuple(sdgar.split(sdgar.synthetic("demo")))


def test_it_is_the_start_of_sdsoftmax_and_local_ease_added_up(parts):
    train, _ = parts
    model = sdgar.Quick(dim=8, sweeps=2, item_memory=4.0, tau=0.3).fit(train).recommender_.model
    assert isinstance(model, Sum)
    cosine = Cosine(train.n_users, train.n_items, 8, seed=0, tau=0.3, sparse=True, bias=True)
    start(cosine, train, sweeps=2)
    memory = sdgar.LocalEASE().fit(train).recommender_.model
    users_B = np.arange(20)
    cosines_BI = cosine.score_all(torch.from_numpy(users_B)).detach().numpy()
    wanted_BI = cosines_BI + 4.0 * memory.score_all(users_B)
    np.testing.assert_allclose(model.score_all(users_B), wanted_BI, rtol=1e-4, atol=1e-5)


def test_it_is_better_than_either_of_its_parts(parts):
    train, test = parts
    found = {
        name: system.fit(train).evaluate(test).means()["ndcg@50"]
        for name, system in {
            "both": sdgar.Quick(item_memory=8.0),
            "vectors": sdgar.Quick(item_memory=0.0),
            "memory": sdgar.LocalEASE(),
        }.items()
    }
    assert found["both"] > found["vectors"]
    assert found["both"] > found["memory"]


def test_without_a_memory_there_are_vectors_alone(parts):
    assert isinstance(sdgar.Quick(item_memory=0.0, dim=4).fit(parts[0]).recommender_.model, Factors)


def test_rules_are_reported(parts):
    assert recipe_of(sdgar.Quick()).decided(parts[0]).keys() == {"tau", "item_memory__neighbours"}
    assert recipe_of(sdgar.Quick(tau=0.2, item_memory__neighbours=7)).decided(parts[0]) == {}


@pytest.mark.parametrize(("rows_of_an_item", "neighbours"), [(4, 50), (70, 70), (300, 100)])
def test_an_item_has_as_many_neighbours_as_rows_within_bounds(rows_of_an_item, neighbours):
    users, items = np.divmod(np.arange(3 * rows_of_an_item), 3)
    data = sdgar.Interactions.from_arrays(users, items)
    assert recipe_of(sdgar.Quick()).decided(data)["item_memory__neighbours"] == neighbours
