"""Transitions and NextItem learn what comes next, and answer as every other model does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sdgar
from sdgar.discriminators.sequence import Sequence
from sdgar.errors import DataError, UsageError
from sdgar.maths.transitions import Decay
from sdgar.models.network import EncodedFactors
from sdgar.models.transitions import TransitionWeights
from sdgar.objectives import Softmax

N_ITEMS = 40


def walks(n_users=120, length=8, seed=0, hop=7):
    """Everyone walks along one circle of items, with some noise: i is followed by i + hop."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), length)
    steps = np.tile(np.arange(length), n_users)
    items = (np.repeat(rng.integers(0, N_ITEMS, n_users), length) + hop * steps) % N_ITEMS
    odd = rng.random(len(items)) < 0.15
    items[odd] = rng.integers(0, N_ITEMS, odd.sum())
    return users, items, steps


@pytest.fixture(scope="module")
def rows():
    users, items, steps = walks()
    return sdgar.Interactions.from_arrays(users, items, time=steps)


@pytest.fixture(scope="module")
def fitted(rows):
    return sdgar.Transitions().fit(rows, verbose=False)


def listed(model, history, k=3, **options):
    return model.recommend(history=history, k=k, **options)["item"].to_list()


def hits(model):
    """The share of walks of three steps whose next step comes first."""
    walks_of = [[(i + 7 * step) % N_ITEMS for step in range(4)] for i in range(N_ITEMS)]
    return np.mean([listed(model, walk[:3])[0] == walk[3] for walk in walks_of])


def test_the_next_item_of_a_history_comes_first_and_the_order_matters(fitted):
    assert hits(fitted) > 0.9
    # The one that came last decides.
    assert listed(fitted, [3, 20])[0] == 27
    assert listed(fitted, [20, 3])[0] == 10


def test_it_beats_what_knows_no_order(rows, fitted):
    train, test = sdgar.split(rows, "leave-last-out")
    ours, unordered = sdgar.Transitions(), sdgar.LocalEASE()
    scores = [one.fit(train, verbose=False).evaluate(test, ks=(1,)) for one in (ours, unordered)]
    directed, undirected = (one.means()["hit@1"] for one in scores)
    assert directed > undirected + 0.1


def test_a_saved_model_gives_the_same_lists(fitted, tmp_path):
    path = fitted.save(tmp_path / "model")
    again = sdgar.load(path)
    for user in (0, 7, 119):
        assert again.recommend([user], k=5).equals(fitted.recommend([user], k=5))
    assert listed(again, [3, 10, 17]) == listed(fitted, [3, 10, 17])


def test_reasons_are_the_exact_shares_of_the_score(fitted):
    lists = fitted.recommend(history=[3, 10, 17], k=2)
    shares = fitted.explain(history=[3, 10, 17], k=2)
    for item, score in zip(lists["item"], lists["score"], strict=True):
        own = shares.filter(shares["item"] == item)["share"].sum()
        assert own == pytest.approx(score, rel=1e-4)


def test_new_events_come_after_those_the_model_has(rows, fitted):
    last = sdgar.Interactions.from_arrays([0], [rows.items.values[5]], time=[100])
    updated = fitted.update(last)
    own = rows.items_E[rows.users_E == 0][np.argsort(rows.time_E[rows.users_E == 0])]
    history = [i for i in rows.items.values[own].tolist() if i != 5] + [5]
    assert updated.recommend([0], k=5)["item"].to_list() == listed(fitted, history, k=5)
    # Users without new events keep the order of theirs.
    assert updated.recommend([1], k=5).equals(fitted.recommend([1], k=5))


def test_validation_rows_choose_the_settings(rows):
    train, valid = sdgar.split(rows, "leave-last-out")
    model = sdgar.Transitions(l2=3.0).fit(train, valid, verbose=False)
    chosen = model.recommender_.about["chosen"]
    assert chosen["l2"] == 3.0
    assert 0 < chosen["alpha"] <= 1
    assert chosen["tau"] < 25  # order matters here
    fixed = sdgar.Transitions(**chosen).fit(train, verbose=False)
    assert fixed.recommend([0], k=5).equals(model.recommend([0], k=5))


def test_rows_without_times_are_refused():
    users, items, _ = walks()
    unordered = sdgar.Interactions.from_arrays(users, items, duplicates="last")
    with pytest.raises(DataError, match="--time-column"):
        sdgar.Transitions().fit(unordered, verbose=False)


def test_half_of_a_decay_is_refused(rows):
    with pytest.raises(UsageError, match="go together"):
        sdgar.Transitions(tau=2.0).fit(rows, verbose=False)


@pytest.mark.parametrize(
    "wrong", [{"tau": -1.0, "floor": 0.1}, {"tau": 2.0, "floor": 3.0}, {"alpha": 5.0}]
)
def test_settings_that_are_out_of_range_are_refused(rows, wrong):
    with pytest.raises(UsageError, match=next(name for name in wrong if wrong[name] != 2.0)):
        sdgar.Transitions(**wrong).fit(rows, verbose=False)


def test_dislikes_are_refused_where_nothing_is_drawn(rows):
    disliking = rows.with_seen(rows.users.values[:1], rows.items.values[-1:])
    assert disliking.disliked is not None
    with pytest.raises(UsageError, match="n_negatives"):
        sdgar.NextItem(sampler__dislikes=0.5).fit(disliking, verbose=False)


def test_users_with_few_events_still_get_a_model():
    rows = sdgar.Interactions.from_arrays([1, 1, 2], ["a", "b", "a"], time=[1, 2, 3])
    model = sdgar.Transitions().fit(rows, verbose=False)
    assert model.recommend([2], k=1)["item"].to_list() == ["b"]
    assert Decay(1.0, 0.0).step == 1


SMALL = {
    "dim": 16, "epochs": 40, "learning_rate": 0.01, "batch_size": 64, "network__dropout": 0.1,
    "network__length": 10,
}  # fmt: skip


@pytest.fixture(scope="module")
def next_item(rows):
    return sdgar.NextItem(**SMALL).fit(rows, verbose=False)


def test_the_network_and_the_memory_are_added(next_item):
    network, memory = next_item.recommender_.saved.model.parts()
    assert isinstance(network, EncodedFactors)
    assert isinstance(memory, TransitionWeights)
    assert listed(next_item, [3, 20])[0] == 27
    assert listed(next_item, [20, 3])[0] == 10


def test_either_part_can_be_left_out(rows):
    model = sdgar.NextItem(**SMALL, item_memory=0.0).fit(rows, verbose=False)
    (network,) = model.recommender_.saved.model.parts()
    assert isinstance(network, EncodedFactors)
    assert hits(model) > 0.9
    assert type(sdgar.NextItem.fast()).__name__ == "Transitions"


def test_a_saved_sum_gives_the_same_lists(next_item, tmp_path):
    again = sdgar.load(next_item.save(tmp_path / "model"))
    assert again.recommend([0, 7], k=5).equals(next_item.recommend([0, 7], k=5))
    assert listed(again, [3, 10, 17]) == listed(next_item, [3, 10, 17])
    updated = again.update(sdgar.Interactions.from_arrays([0], [5], time=[100]))
    assert updated.recommend([0], k=1)["item"].to_list() == [12]


def test_the_loss_over_all_items_is_that_of_the_objective(rows):
    torch.manual_seed(1)
    module = Sequence(rows.n_users, rows.n_items, dim=8, heads=2, dropout=0.0, tau=0.0)
    module.prepare(rows)
    rows_B = torch.arange(0, 300, 7)
    items_B = torch.from_numpy(rows.items_E).long()[rows_B]
    other_I = torch.arange(rows.n_items).expand(len(rows_B), -1)
    others = other_I[other_I != items_B[:, None]].view(len(rows_B), -1)
    s_BN = module.score_event(rows_B, torch.cat((items_B[:, None], others), dim=1))
    wanted_B = Softmax()(s_BN[:, 0], s_BN[:, 1:], None)
    torch.testing.assert_close(module.loss_over_all_items(rows_B, items_B), wanted_B)


def test_drawn_negatives_learn_the_same(rows):
    model = sdgar.NextItem(**SMALL, n_negatives=20, item_memory=0.0).fit(rows, verbose=False)
    assert hits(model) > 10 / N_ITEMS  # ten times as many as by chance


def test_the_same_seed_gives_the_same_model(rows):
    found = [
        sdgar.NextItem(**SMALL | {"epochs": 2}).fit(rows, verbose=False).recommend([0, 7], k=10)
        for _ in range(2)
    ]
    assert found[0].equals(found[1])


def test_what_is_decided_follows_from_the_length_of_histories(rows):
    users, items, steps = walks(n_users=10, length=40)
    long = sdgar.Interactions.from_arrays(users, items, time=steps)
    short, lengthy = (sdgar.NextItem()._decided(data) for data in (rows, long))
    assert (short["dim"], short["network__length"]) == (64, 50)
    assert (lengthy["dim"], lengthy["network__dropout"]) == (128, 0.2)
