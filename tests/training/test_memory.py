"""An item memory added to a trained model: its weight is chosen, it is saved, and it folds in."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import sdgar
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.data.merge import merge
from sdgar.data.synthetic import Shape, generate
from sdgar.errors import DataError, UsageError
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.models.factors import Factors, popularity
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.sum import Sum, weighted_sum
from sdgar.ranking.blocks import Blocks
from sdgar.systems.recipe import recipe_of
from sdgar.training.fitting import Fit
from sdgar.training.item_memory import WEIGHTS, ItemMemorySolver, WeightSearch

QUICK = {
    "dim": 8,
    "sampler__states": 4,
    "sampler__pretrain": 2,
    "n_negatives": 8,
    "epochs": 2,
    "early_stopping__every": 1,
}
QUICK |= {"engine": "eager", "batch_size": 8192}
RULE = Neighbourhoods(k=20, l2=20.0, shrink=10.0, beta=0.5)


@pytest.fixture(scope="module")
def demo():
    return splits.split(sdgar.synthetic("demo"), "paper", seed=0)


@pytest.fixture(scope="module")
def small():
    shape = Shape(users=120, items=80, interactions=2_400, concentration=0.2)
    return splits.split(generate(shape, seed=0), "paper", seed=0)


@pytest.fixture(scope="module")
def fitted(demo):
    return sdgar.SDSoftmax(item_memory=None, **QUICK).fit(demo.train, verbose=False)


def test_a_memory_that_helps_is_added_and_one_of_weight_0_is_not(fitted, demo):
    model = fitted.recommender_.model
    assert isinstance(model, Sum)
    assert recipe_of(fitted).trained.memory == model.weight in WEIGHTS
    assert isinstance(model.first, Factors)
    assert isinstance(model.second, LocalItemWeights)
    with_memory = fitted.evaluate(demo.held_out).means()["ndcg@50"]
    without = sdgar.SDSoftmax(item_memory=0, **QUICK).fit(demo.train, verbose=False)
    assert isinstance(without.recommender_.model, Factors)
    assert with_memory > without.evaluate(demo.held_out).means()["ndcg@50"]


def test_any_trained_system_can_have_one_with_a_given_weight(demo):
    quick = {"epochs": 2, "early_stopping": False, "engine": "eager"}
    model = sdgar.BPR(item_memory=0.5, **quick).fit(demo.train, verbose=False).recommender_.model
    assert (model.weight, model.kind) == (0.5, "sum")
    alone = sdgar.BPR(**quick).fit(demo.train, verbose=False).recommender_.model
    assert np.array_equal(model.first.user_UD, alone.user_UD)


def test_a_model_with_a_memory_comes_back_and_knows_new_users(fitted, tmp_path):
    loaded = sdgar.load(fitted.save(tmp_path / "run"))
    users = fitted.recommender_.users.values[:5].tolist()
    assert loaded.recommend(users, k=5).equals(fitted.recommend(users, k=5))
    items = fitted.recommender_.items.values[:3].tolist()
    new = loaded.recommend(history=items, k=4)
    assert new.equals(fitted.recommend(history=items, k=4))
    assert not set(new["item"]) & set(items)
    folded = loaded.fold_in({"ann": items})
    again = sdgar.load(folded.save(tmp_path / "folded"))
    assert again.recommend("ann", k=4)["item"].to_list() == new["item"].to_list()


def test_the_memory_s_part_of_a_new_user_is_that_of_a_known_one(fitted):
    model = fitted.recommender_.model
    history = fitted.recommender_.history
    items_E = history.of(0)
    row_I = model.second.score_all(np.array([0]))[0]
    new = model.fold_in(
        sdgar.models.fold_in.NewContexts(
            type(history)(np.array([0, len(items_E)]), items_E.astype(np.int32))
        )
    )
    assert np.array_equal(new.second.score_all(np.array([0]))[0], row_I)


def test_the_smallest_weight_with_nine_tenths_of_the_best_gain_is_chosen(demo):
    part = splits.validation(demo.train, seed=0)
    weights = ItemMemorySolver(RULE, None).solve(part.train, torch.device("cpu"))
    held_out = HeldOut.of(part.held_out, part.train)
    n_users, n_items = part.train.n_users, part.train.n_items
    nothing = popularity(History(np.zeros(n_users + 1, np.int64), np.zeros(0, np.int32)), n_items)
    seen = part.train.history
    # Next to scores that are all 0, every weight above 0 ranks the same: the smallest is taken.
    search = WeightSearch(nothing, weights, held_out, seen, "ndcg@50")
    assert search.chosen(WEIGHTS) == WEIGHTS[0]
    # A memory added to itself changes nothing.
    assert replace(search, model=weights).chosen(WEIGHTS) == 0
    assert weighted_sum(nothing, weights, 0.0) is nothing


def test_all_rows_are_learned_with_the_weight_that_was_chosen(fitted, demo):
    model, chosen = copy.copy(fitted), recipe_of(fitted).trained.memory
    recipe_of(model).fit(Fit(rows=merge(demo.train, demo.held_out), protocol="all", verbose=False))
    assert model.recommender_ is not fitted.recommender_
    assert recipe_of(model).trained.memory == chosen == model.recommender_.model.weight


def test_with_a_falling_rate_the_last_epoch_is_kept(small):
    quick = QUICK | {"epochs": 3, "learning_rate": 3.0}  # the metric falls, and training continues
    train, valid = sdgar.split(small.train)
    fitted = sdgar.SDSoftmax(item_memory=0.0, **quick).fit(train, valid, verbose=False)
    looks = [
        r
        for phase, r in recipe_of(fitted).trained.log
        if phase == "choose" and r.metric is not None
    ]
    assert len(looks) == 3
    assert [look.best for look in looks] == [False, False, True]
    assert recipe_of(fitted).trained.best_epoch == 3


def test_similar_items_go_by_vectors_or_by_the_memory_and_it_is_said(fitted):
    model = fitted.recommender_
    item = model.items.values[0]
    assert model.similar_by("item") == model.similar_by("item", "vectors") == "vectors"
    assert model.similar_by("item", "weights") == "weights"
    assert model.similar_by("user", "weights") is None
    by_weights = model.similar_items(item, k=3, by="weights")
    weight_II = model.model.second.weight_II
    row_I = np.zeros(model.model.n_items)
    own = weight_II.rows(np.array([0]))
    row_I[own.column_E] = own.weights()
    assert by_weights["score"].to_list() == pytest.approx(np.sort(row_I)[::-1][:3].tolist())
    assert not by_weights.equals(model.similar_items(item, k=3))
    for by, side in (("cosines", "item"), ("weights", "user")):
        with pytest.raises(UsageError):
            model.similar_lists(side, [item], 3, by=by)


def test_a_falling_rate_goes_on_with_all_rows_from_half_way(small):
    seen = []
    quick = QUICK | {"epochs": 5, "engine": "fused-cpu"}
    fitted = sdgar.SDSoftmax(item_memory=1.0, **quick).fit(
        small.train,
        on_epoch=lambda phase, record: seen.append((phase, record.epoch)),
        verbose=False,
    )
    assert seen == [("choose", 1), ("choose", 2), ("choose", 3), ("final", 4), ("final", 5)]
    assert (recipe_of(fitted).trained.epochs, recipe_of(fitted).trained.best_epoch) == (5, 5)
    assert recipe_of(fitted).trained.valid


def test_what_goes_on_has_the_optimiser_and_the_generator_of_the_first_half(small, monkeypatch):
    from sdgar.training import loop

    states = {}
    whole = loop.fit

    def watched(system, engine, options, *, after=None, **rest):
        if after is not None:
            states["before"] = after.state
            own = engine.load_state
            monkeypatch.setattr(
                engine, "load_state", lambda s: (own(s), states.update(after=engine.state()))
            )
        return whole(system, engine, options, after=after, **rest)

    monkeypatch.setattr(loop, "fit", watched)
    quick = QUICK | {"epochs": 4, "engine": "fused-cpu"}
    sdgar.SDSoftmax(item_memory=0.0, **quick).fit(small.train, verbose=False)
    assert states["before"].keys() == states["after"].keys()
    for name, tensor in states["before"].items():
        assert torch.equal(tensor, states["after"][name]), name
    assert any(name.startswith("sampler.") for name in states["before"])
    assert any(name.startswith("optimizer.") for name in states["before"])


def test_weights_are_chosen_as_if_each_sum_were_measured_alone(fitted, demo):
    from sdgar.evaluation.report import evaluate

    model = fitted.recommender_.model
    held_out = HeldOut.of(demo.held_out, demo.train).sample(50, seed=0)
    for other in (model.second, model.first):
        search = WeightSearch(model.first, other, held_out, demo.train.history, "ndcg@10")
        found = search.values((0.5, 4.0))
        for weight, value_T in found.items():
            alone = evaluate(
                weighted_sum(model.first, other, weight),
                held_out,
                seen=demo.train.history,
                ks=(10,),
            )
            assert value_T == pytest.approx(alone.per_user["ndcg@10"], abs=1e-6)


def test_users_with_tied_scores_can_be_ranked_again(fitted, demo, monkeypatch):
    n_users, n_items = demo.train.n_users, demo.train.n_items
    score_UI = np.random.default_rng(0).random((n_users, n_items), np.float32)
    score_UI[::2] = np.floor(3 * score_UI[::2])
    tied = Factors(score_UI, np.eye(n_items, dtype=np.float32), np.zeros(n_items, np.float32))
    held_out = HeldOut.of(demo.held_out, demo.train)
    second, seen = fitted.recommender_.model.second, demo.train.history
    search = WeightSearch(tied, second, held_out, seen, "ndcg@5")
    expected = search.chosen(WEIGHTS)
    monkeypatch.setattr(Blocks, "_rank_block", Blocks._rank_scores)
    assert search.chosen(WEIGHTS) == expected


def test_users_without_a_training_row_do_not_choose_the_weight():
    users = [f"u{n}" for n in range(40) for _ in range(4)] + ["late"] * 3
    items = [f"i{(n * 7 + k * 3) % 25}" for n in range(40) for k in range(4)] + ["i1", "i2", "i3"]
    times = [*range(160), 900, 901, 902]
    data = sdgar.Interactions.from_arrays(users, items, time=times)
    fitted = sdgar.SDSoftmax(**QUICK).fit(data, verbose=False)
    assert len(fitted.recommend(["late"], k=3)) == 3


def test_validation_rows_of_unknown_users_alone_are_refused(small):
    strangers = sdgar.Interactions.from_arrays(["x", "y"], [small.train.items.values[0]] * 2)
    with pytest.raises(DataError, match="no held-out user"):
        sdgar.SDSoftmax(**QUICK).fit(small.train, strangers, refit=True, verbose=False)


def test_without_a_known_context_nothing_says_that_a_weight_helps(fitted, demo):
    model = fitted.recommender_.model
    held_out = HeldOut.of(demo.held_out, demo.train).sample(5, seed=0)
    new = replace(
        held_out,
        users_T=np.arange(5) + demo.train.n_users,
        unseen_XF=np.zeros((5, 2), np.int64),
    )
    seen = History(np.zeros(demo.train.n_users + 6, np.int64), np.zeros(0, np.int32))
    search = WeightSearch(model.first, model.second, new, seen, "ndcg@10")
    assert search.chosen(WEIGHTS) == 0.0
