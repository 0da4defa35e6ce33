"""The weight of an item memory is chosen again by rows that an earlier model was not trained on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.data.synthetic import Shape, generate
from sdgar.models.sum import Sum
from sdgar.recommend.recommender import Recommender, load
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.training.fitting import Fit
from sdgar.training.item_memory import TRIED, WeightEvidence, evidence_with_new_rows

SHORT = {"epochs": 2, "early_stopping": False, "engine": "eager", "dim": 3, "sampler__states": 4}
SHORT |= {"warm_start__epochs": 1, "warm_start__rate": 1e-9}
METRIC = "ndcg@50"


def chosen(value_UW: np.ndarray, weight: float) -> float:
    """The rule of the docstring for the values of all users at once."""
    at = TRIED.index(weight)
    gain_UW = value_UW - value_UW[:, [at]]
    mean_W = gain_UW.mean(axis=0)
    best = mean_W.argmax()
    if len(value_UW) < 10:
        return weight
    if mean_W[best] <= gain_UW[:, best].std() / len(value_UW) ** 0.5:
        return weight
    enough = [w for w in range(len(TRIED)) if mean_W[w] >= 0.9 * mean_W[best]]
    return TRIED[min(enough, key=lambda w: abs(w - at))]


values = st.integers(1, 15).flatmap(
    lambda n: arrays(np.float64, (n, len(TRIED)), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
)


@settings(max_examples=40)
@given(st.lists(values, min_size=1, max_size=3), st.sampled_from(TRIED))
def test_nights_add_up_to_what_all_users_say_together(nights, weight):
    together = WeightEvidence.read({}, METRIC)
    assert together.better_weight(weight) == weight
    for value_UW in nights:
        together = together.plus(WeightEvidence.of(METRIC, value_UW))
    whole = np.concatenate(nights)
    gain = whole - whole[:, [TRIED.index(weight)]]
    edge = gain.mean(axis=0).max() - gain[:, gain.mean(axis=0).argmax()].std() / len(whole) ** 0.5
    if abs(edge) > 1e-9:
        assert together.better_weight(weight) == chosen(whole, weight)
    again = WeightEvidence.read(
        {"further": json.loads(json.dumps({"evidence": together.as_dict()}))}, METRIC
    )
    assert again.as_dict() == together.as_dict()


def test_evidence_by_another_metric_does_not_count():
    night = WeightEvidence.of(METRIC, np.eye(len(TRIED)))
    reported = night.as_dict()
    assert WeightEvidence.read({"further": {"evidence": reported}}, METRIC).users == len(TRIED)
    for other in ({"metric": "recall@20"}, {"tried": [0.0, 1.0]}, {"sum": [1.0]}, {"users": "8"}):
        assert WeightEvidence.read({"further": {"evidence": reported | other}}, METRIC).users == 0
    assert WeightEvidence.read({"further": {"times": 3}}, METRIC).users == 0
    many = WeightEvidence.of(METRIC, np.tile([0.0, *[1.0] * (len(TRIED) - 1)], (12, 1)))
    assert many.better_weight(0.0) == 0.5
    assert many.better_weight(3.0) == 3.0  # a weight that was given, and is none of those tried


@pytest.fixture(scope="module")
def data() -> Interactions:
    return generate(Shape(users=60, items=40, interactions=900, concentration=0.1), seed=0)


@pytest.fixture(scope="module")
def before(data) -> Recommender:
    return SDSoftmax(**SHORT, item_memory=4.0).fit(data, verbose=False).recommender_


def with_weight(model: Recommender, weight: float) -> Recommender:
    found = model.model
    assert isinstance(found, Sum)
    return model.with_model(replace(found, weight=weight) if weight else found.first, model.about)


def with_favourites(data: Interactions, scores_UI: np.ndarray) -> Interactions:
    """The rows, and for each user the missing item that these scores put first."""
    scores_UI = scores_UI.copy()
    scores_UI[data.users_E, data.items_E.astype(np.int64)] = -np.inf
    new = Interactions.from_arrays(data.users.values, data.items.at(scores_UI.argmax(axis=1)))
    return merge(data, new)


def continued(rows: Interactions, before: Recommender, **settings) -> SDSoftmax:
    """Train further from an earlier model."""
    system = SDSoftmax(**SHORT, **settings)
    return recipe_of(system).fit(Fit(rows=rows, before=before, protocol="warm", verbose=False))


@pytest.mark.parametrize(("part", "had"), [("first", 4.0), ("second", 4.0), ("second", 0.0)])
def test_new_rows_that_one_part_foretells_move_the_weight_towards_it(part, had, data, before):
    whole = before.model
    everyone = np.arange(data.n_users)
    rows = with_favourites(data, getattr(whole, part).score_all(everyone))
    after = continued(rows, with_weight(before, had))
    weight = recipe_of(after).trained.memory
    assert weight < had if part == "first" else weight > had
    reported = after.recommender_.about["further"]["evidence"]
    assert reported["users"] == data.n_users
    best = dict(zip(TRIED, reported["sum"], strict=True))[32.0 if part == "second" else 0.0]
    assert best == pytest.approx(max(reported["sum"]), rel=0.05)


def test_a_weight_that_is_given_stays_and_nothing_new_changes_nothing(data, before):
    rows = with_favourites(data, before.model.first.score_all(np.arange(data.n_users)))
    after = continued(rows, before, item_memory=2.0)
    assert recipe_of(after).trained.memory == 2.0
    assert "evidence" not in after.recommender_.about["further"]
    same = continued(data, before)
    assert recipe_of(same).trained.memory == 4.0
    assert "evidence" not in same.recommender_.about["further"]


def test_later_nights_count_with_those_before_them(data, before, tmp_path):
    everyone = np.arange(data.n_users)
    rows = with_favourites(data, before.model.second.score_all(everyone))
    one = continued(rows, before).recommender_
    saved = load(one.save(tmp_path / "model"))
    memory = recipe_of(SDSoftmax(**SHORT)).item_memory(rows)
    assert (
        evidence_with_new_rows(saved, rows, memory, METRIC).as_dict()
        == one.about["further"]["evidence"]
    )
    more = with_favourites(rows, saved.model.first.score_all(everyone))
    both = evidence_with_new_rows(saved, more, memory, METRIC)
    assert both.users == 2 * data.n_users
    forgetful = saved.with_model(saved.model, {**saved.about, "further": {}})
    alone = evidence_with_new_rows(forgetful, more, memory, METRIC)
    np.testing.assert_allclose(both.sum_W, alone.sum_W + one.about["further"]["evidence"]["sum"])
    other = evidence_with_new_rows(saved, more, memory, "recall@20")
    assert other.users == data.n_users


def test_users_unknown_to_the_earlier_model_are_not_evaluated(data, before):
    rows = merge(data, Interactions.from_arrays([10**6, 10**6], data.items.values[:2]))
    memory = recipe_of(SDSoftmax(**SHORT)).item_memory(rows)
    assert evidence_with_new_rows(before, rows, memory, METRIC).users == 0
