from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.data.splits import per_user
from sdgar.data.synthetic import synthetic
from sdgar.discriminators.bounded import Cosine, start
from sdgar.evaluation.report import evaluate


def cosine(data: Interactions, **changes) -> Cosine:
    settings = {"seed": 3, "tau": 0.12, "bias": True} | changes
    return Cosine(data.n_users, data.n_items, 16, **settings)


@pytest.fixture(scope="module")
def demo():
    return per_user(synthetic(), seed=0)


def test_biases_are_logarithms_of_popularity(demo):
    train, _ = demo
    model = cosine(train)
    start(model, train, sweeps=0)
    log_n_I = np.log(np.bincount(train.items_E, minlength=train.n_items) + 1)
    assert_close(
        model.bias_I.detach(), torch.from_numpy(log_n_I - log_n_I.mean()).float(), atol=1e-5, rtol=0
    )
    untouched = cosine(train)
    assert torch.equal(model.user_UD, untouched.user_UD)
    assert torch.equal(model.item_ID, untouched.item_ID)


def test_directions_have_length_one_and_recommend_before_any_epoch(demo):
    train, test = demo
    held_out = HeldOut.of(test, train)
    reached = []
    for sweeps in (0, 3):
        model = cosine(train)
        start(model, train, sweeps=sweeps)
        for table_RD in (model.user_UD, model.item_ID):
            assert_close(table_RD.detach().norm(dim=1), torch.ones(len(table_RD)))
        means = evaluate(model.factors(), held_out, seen=train.history, ks=(50,)).means()
        reached.append(means["ndcg@50"])
    assert reached[1] > 1.5 * reached[0]


def test_rows_that_nothing_is_known_of_stay_at_random():
    # Item 3 is in the catalogue and nobody has it; the user 2 has nothing.
    data = Interactions.from_arrays([0, 0, 1, 1, 2], [0, 1, 1, 2, 3])
    few = replace(data, indptr_U1=np.array([0, 2, 4, 4]), items_E=data.items_E[:4])
    model, untouched = cosine(few), cosine(few)
    start(model, few, sweeps=2)
    assert torch.equal(model.item_ID[3], untouched.item_ID[3])
    assert torch.equal(model.user_UD[2], untouched.user_UD[2])
    assert not torch.equal(model.item_ID[0], untouched.item_ID[0])
    assert not torch.equal(model.user_UD[0], untouched.user_UD[0])


def test_cosines_without_biases_get_directions_only(demo):
    train, _ = demo
    model, biased = cosine(train, bias=False), cosine(train)
    start(model, train, sweeps=1)
    start(biased, train, sweeps=1)
    assert model.bias_I is None
    assert torch.equal(model.item_ID, biased.item_ID)


def test_the_start_is_the_same_for_any_number_of_threads(demo, set_threads):
    train, _ = demo
    tables = []
    for threads in (1, 2, 3):
        set_threads(threads)
        model = Cosine(train.n_users, train.n_items, 128, seed=3, tau=0.12)
        start(model, train, sweeps=3)
        tables.append((model.user_UD, model.item_ID))
    for user_UD, item_ID in tables[1:]:
        assert torch.equal(user_UD, tables[0][0])
        assert torch.equal(item_ID, tables[0][1])
