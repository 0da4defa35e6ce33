"""Training continues from an earlier model: known rows stay, and new ones start sensibly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate
from sdgar.errors import UsageError
from sdgar.models.sum import Sum
from sdgar.recommend.recommender import Recommender
from sdgar.systems.base import Estimator
from sdgar.systems.bpr import BPR
from sdgar.systems.composed import Composed
from sdgar.systems.ease import EASE
from sdgar.systems.hinges import CML
from sdgar.systems.irgan import IRGAN
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.training import warm_start as further
from sdgar.training.fitting import Fit

SHORT = {"epochs": 2, "early_stopping": False, "engine": "eager", "dim": 3, "batch_size": 256}
SHORT |= {"warm_start__epochs": 2}
MAKE = {
    "sdsoftmax": lambda **more: SDSoftmax(
        **SHORT | {"sampler__states": 4, "item_memory": 0.0} | more
    ),
    "bpr": lambda **more: BPR(**SHORT | more),
    "sdgar": lambda **more: SDGAR(**SHORT | {"sampler__states": 4, "sampler__samples": 8} | more),
    "cml": lambda **more: CML(**SHORT | more),
}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return generate(Shape(users=60, items=40, interactions=900, concentration=0.1), seed=0)


@pytest.fixture(scope="module")
def yesterday(data) -> Interactions:
    """The rows without every seventh user and every ninth item."""
    return data[(data.users_E % 7 != 3) & (data.items_E % 9 != 4)]


@pytest.fixture(scope="module")
def before(yesterday) -> dict:
    return {name: make().fit(yesterday) for name, make in MAKE.items()}


def places(mine, theirs) -> tuple[np.ndarray, np.ndarray]:
    at = mine.index_of(theirs.values)
    return np.flatnonzero(at >= 0), at[at >= 0]


def continued(system: Estimator, rows: Interactions, before: Recommender) -> Estimator:
    """Train a system further from an earlier model."""
    return recipe_of(system).fit(Fit(rows=rows, before=before, protocol="warm"))


@pytest.mark.parametrize("name", sorted(MAKE))
def test_steps_of_no_length_leave_what_is_known_where_it_was(name, data, before):
    old = before[name].recommender_
    new = continued(MAKE[name](warm_start__rate=1e-12), data, old).recommender_
    (now_U, was_U), (now_I, was_I) = (
        places(mine, theirs) for mine, theirs in ((old.users, data.users), (old.items, data.items))
    )
    assert 0 < len(now_U) < data.n_users
    assert 0 < len(now_I) < data.n_items
    atol = 1e-5 * float(np.abs(old.factors.user_UD).max())
    for table, now, was in (("user_UD", now_U, was_U), ("item_ID", now_I, was_I)):
        one, two = getattr(new.factors, table)[now], getattr(old.factors, table)[was]
        if name == "sdsoftmax" and table == "user_UD":  # τ follows from the rows
            one, two = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (one, two))
        np.testing.assert_allclose(one, two, atol=atol, rtol=0)
    np.testing.assert_allclose(
        new.factors.bias_I[now_I], old.factors.bias_I[was_I], atol=1e-4, rtol=0
    )
    assert new.about["further"] == {"from": "", "times": 1}


@pytest.mark.parametrize("name", sorted(MAKE))
def test_going_on_is_learning(name, data, before):
    first = before[name].recommender_
    model = continued(MAKE[name](warm_start__epochs=4, warm_start__rate=1.0), data, first)
    losses = [record.loss for _, record in recipe_of(model).trained.log]
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    again = continued(MAKE[name](), data, model.recommender_)
    assert again.recommender_.about["further"]["times"] == 2


def test_new_users_are_folded_in_by_the_rule_of_the_model(data, before):
    old = before["sdsoftmax"].recommender_
    found = further.brought(old, data, seed=0)
    new_U = np.flatnonzero(old.users.index_of(data.users.values) < 0)
    known_E = (old.items.index_of(data.items.values) >= 0)[data.items_E]
    rows = data.subset(known_E & np.isin(data.users_E, new_U), "others")
    folded = old.fold_in(rows)
    at = folded.users.index_of(data.users.at(new_U))
    assert (at >= 0).all()
    np.testing.assert_allclose(
        found.user_UD[new_U], folded.factors.user_UD[at], rtol=1e-5, atol=1e-5
    )


def test_new_items_start_where_least_squares_leads(data, before):
    """The oracle solves the equations of the docstring in float64."""
    old = before["bpr"].recommender_
    found = further.brought(old, data, seed=0)
    unit_UD = torch.nn.functional.normalize(found.user_UD.double(), dim=1).numpy()
    known_I = old.items.index_of(data.items.values) >= 0
    length = found.item_ID[known_I].norm(dim=1).mean()
    for item in np.flatnonzero(~known_I):
        own_CD = unit_UD[data.users_E[data.items_E == item]]
        weight = 0.01 * (len(own_CD) + 0.01 * data.n_users)
        left_DD = own_CD.T @ own_CD + 0.01 * unit_UD.T @ unit_UD + weight * np.eye(3)
        v_D = np.linalg.solve(left_DD, own_CD.sum(axis=0))
        wanted_D = torch.from_numpy(v_D / np.linalg.norm(v_D)).float() * length
        torch.testing.assert_close(found.item_ID[item], wanted_D, atol=1e-3, rtol=1e-3)


def test_biases_of_new_items_follow_popularity_as_those_of_known_items_do(data, before):
    old = before["sdsoftmax"].recommender_
    found = further.brought(old, data, seed=0)
    slope, start = np.polyfit(np.log(old.popularity_I + 1), old.factors.bias_I, 1)
    new_I = np.flatnonzero(old.items.index_of(data.items.values) < 0)
    count_I = np.bincount(data.items_E, minlength=data.n_items)
    wanted = start + slope * np.log(count_I[new_I] + 1)
    np.testing.assert_allclose(found.bias_I[new_I], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", sorted(MAKE))
def test_users_and_items_apart_from_all_others_start_somewhere(name, data, before):
    """Nothing known says where they belong: a user with a new item, which nobody else has."""
    apart = Interactions.from_arrays([901, 901, 902], [901, 902, 901])
    rows = Interactions.from_arrays(
        np.append(data.users.at(data.users_E), apart.users.at(apart.users_E)),
        np.append(data.items.at(data.items_E), apart.items.at(apart.items_E)),
    )
    found = further.brought(before[name].recommender_, rows, seed=0)
    for table_RD in (found.user_UD, found.item_ID):
        length_R = table_RD.norm(dim=1)
        assert torch.isfinite(length_R).all()
        assert (length_R > 0).all()
    assert not torch.equal(found.user_UD[-1], found.user_UD[-2])
    model = continued(MAKE[name](), rows, before[name].recommender_)
    assert len(model.recommend([902], k=3)) == 3


def test_partial_fit_goes_on_with_new_rows_as_with_all_rows(data, yesterday):
    new_E = ~((data.users_E % 7 != 3) & (data.items_E % 9 != 4))
    first = MAKE["bpr"]().partial_fit(yesterday)
    fitted = MAKE["bpr"]().fit(yesterday)
    assert_array_equal(first.recommender_.model.user_UD, fitted.recommender_.model.user_UD)
    by_new = MAKE["bpr"]().partial_fit(yesterday).partial_fit(data[new_E])
    by_all = first.partial_fit(data)
    assert by_all is first
    saved = by_all.recommender_.model.to_saved()
    for name, table in by_new.recommender_.model.to_saved().items():
        assert np.array_equal(table, saved[name]), name


def test_what_vanished_is_kept_or_dropped(data, yesterday):
    less = data[(data.users_E > 9) & (data.items_E > 4)]
    for make in (MAKE["bpr"], EASE):
        kept = make().partial_fit(data).partial_fit(less).recommender_
        assert kept.users.values.tolist() == data.users.values.tolist()
        assert kept.history.items_E.tolist() == data.items_E.tolist()
        dropped = make().partial_fit(data).partial_fit(less, vanished="drop").recommender_
        assert dropped.users.values.tolist() == less.users.values.tolist()
        assert dropped.items.values.tolist() == less.items.values.tolist()
        assert dropped.history.items_E.tolist() == less.items_E.tolist()
    with pytest.raises(UsageError, match="unknown vanished 'forget'"):
        MAKE["bpr"]().partial_fit(data, vanished="forget")


def test_rows_of_the_model_come_first_in_time_and_dislikes_of_today_take_them_back(data):
    model = MAKE["bpr"]().fit(data).recommender_
    user, item = data.users.values[0], data.items.values[data.items_E[0]]
    other = data.items.values[data.items_E[1]]
    today = Interactions.from_arrays([user], [other], time=[70], weight=[3.0])
    both = model.rows_with(today)
    assert len(both) == len(data)
    assert set(both.time_E.tolist()) == {70}
    assert set(both.weight_E.tolist()) == {3.0}
    again = Interactions.from_arrays([user, 901], [other, item])
    both = model.rows_with(again.with_seen(np.array([user]), np.array([item])))
    assert len(both) == len(data)  # one row more, and one less
    assert item not in both.items.at(both.history.of(0))
    assert item in both.items.at(both.seen.of(0))


def test_the_memory_is_solved_again_and_keeps_its_weight(data, yesterday):
    model = MAKE["sdsoftmax"](item_memory=3.0).fit(yesterday).recommender_
    after = continued(MAKE["sdsoftmax"](item_memory=None), data, model)
    found = after.recommender_.model
    assert isinstance(found, Sum)
    assert found.weight == recipe_of(after).trained.memory == 3.0
    assert found.second.history.items_E.tolist() == data.items_E.tolist()
    fresh = MAKE["sdsoftmax"](item_memory=3.0).fit(data).recommender_.model
    assert_array_equal(found.second.weight_II.weights(), fresh.second.weight_II.weights())
    vectors = model.with_model(model.model.first, model.about)
    without = continued(MAKE["sdsoftmax"](item_memory=None), data, vectors)
    assert not isinstance(without.recommender_.model, Sum)


def test_a_system_without_epochs_is_computed_again(data, yesterday):
    model = EASE().fit(yesterday).recommender_
    one, two = continued(EASE(), data, model), EASE().fit(data)
    assert_array_equal(one.recommender_.model.weight_II, two.recommender_.model.weight_II)


def test_what_cannot_continue_says_so(data, yesterday, before):
    with pytest.raises(UsageError, match="training of irgan cannot continue"):
        recipe_of(IRGAN()).require_warm_start()
    recipe_of(IRGAN(side="discriminator")).require_warm_start()
    network = Composed(discriminator="lightgcn", sampler="uniform", objective="bpr")
    with pytest.raises(UsageError, match="training of composed cannot continue"):
        recipe_of(network).require_warm_start()
    with pytest.raises(UsageError, match="vectors of the earlier model have 3 coordinates"):
        continued(MAKE["bpr"](dim=4), data, before["bpr"].recommender_)
    fields = {"user": [1, 1, 2, 3], "daypart": ["day", "night", "day", "night"]}
    rows = Interactions.from_contexts(fields, [0, 1, 1, 2])
    context = MAKE["bpr"]().fit(rows)
    with pytest.raises(UsageError, match="a context has several fields"):
        continued(MAKE["bpr"](), rows, context.recommender_)
    with pytest.raises(UsageError, match="only models whose context is the user"):
        context.partial_fit(rows)
