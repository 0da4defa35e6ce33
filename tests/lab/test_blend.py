"""The sum of two models: its weight, its file, and what cannot be added up."""

from __future__ import annotations

import numpy as np
import pytest

import sdgar
from sdgar.errors import UsageError

QUICK = {"dim": 8, "sampler__states": 4, "sampler__pretrain": 2, "n_negatives": 8, "epochs": 3}
QUICK |= {"engine": "eager", "batch_size": 8192, "early_stopping": False}


@pytest.fixture(scope="module")
def part():
    return sdgar.split(sdgar.synthetic("demo"), "paper", seed=0)


@pytest.fixture(scope="module")
def models(part):
    return {
        "ials": sdgar.IALS(dim=8).fit(part.train, verbose=False),
        "near": sdgar.LocalEASE().fit(part.train, verbose=False),
        "softmax": sdgar.SDSoftmax(item_memory=2.0, **QUICK).fit(part.train, verbose=False),
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [("ials", "near"), ("near", "ials"), ("softmax", "ials"), ("ials", "softmax")],
)
def test_a_sum_is_a_model_that_is_saved_and_knows_new_users(first, second, models, tmp_path):
    one, other = models[first].recommender_, models[second].recommender_
    both = sdgar.blend(one, other, weight=0.5).model
    users = one.users.values[:3].tolist()
    items = one.items.values[:7].tolist()
    for user in users:
        alone = [m.score_pairs(user, items)["score"].to_numpy() for m in (one, other)]
        np.testing.assert_allclose(
            both.score_pairs(user, items)["score"].to_numpy(), alone[0] + 0.5 * alone[1], rtol=1e-5
        )
    loaded = sdgar.load(both.save(tmp_path / "both"))
    assert loaded.recommend(users, k=5).equals(both.recommend(users, k=5))
    history = items[:4]
    new = both.recommend(history=history, k=4)
    assert loaded.recommend(history=history, k=4).equals(new)
    folded = loaded.fold_in({"ann": history})
    again = sdgar.load(folded.save(tmp_path / "folded"))
    assert again.recommend("ann", k=4)["item"].to_list() == new["item"].to_list()
    # Who is folded into a folded model is who they would have been.
    assert again.recommend(history=history, k=4).equals(new)
    assert loaded.explain(users[0], k=1)["share"].sum() == pytest.approx(
        loaded.recommend(users[0], k=1)["score"][0], abs=1e-4
    )


def test_the_weight_is_chosen_where_both_are_better_than_one(models, part):
    one, other = models["ials"], models["near"]
    found = sdgar.blend(one, other, part.held_out)
    assert found.weight > 0
    assert found.chosen_on == len(np.unique(part.held_out.users_E))
    means = [m.evaluate(part.held_out).means()["ndcg@50"] for m in (found.model, one, other)]
    assert means[0] > max(means[1:])


def test_the_weight_can_be_chosen_on_a_part_of_the_training_rows(models, part):
    found = sdgar.blend(models["ials"], models["near"], train=part.train)
    assert found.weight > 0
    assert found.chosen_on > 0
    # The sum has the given models, not the ones that chose the weight.
    assert found.model.model.first is models["ials"].recommender_.model


def test_a_sum_has_no_settings_to_be_trained_with_again(models, part):
    both = sdgar.blend(models["ials"], models["near"], weight=1.0).model
    with pytest.raises(UsageError, match="has no settings to train it with again"):
        sdgar.blend(both, models["near"], train=part.train)


def test_what_cannot_be_added_up_is_refused(models, part):
    one = models["near"]
    for ask, code in (
        (lambda: sdgar.blend(one, one), "no_weight"),
        (lambda: sdgar.blend(one, one, part.held_out, weight=1.0), "no_weight"),
        (lambda: sdgar.blend(one, one, part.held_out), "nothing_gained"),
        (lambda: sdgar.blend(one, one, weight=-1.0), "bad_setting"),
        (lambda: sdgar.blend(one, one.fold_in({"x": ["item-0001"]}), weight=1.0), "other_data"),
    ):
        with pytest.raises(UsageError) as error:
            ask()
        assert error.value.code == code
