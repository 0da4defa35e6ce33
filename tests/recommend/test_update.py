"""A model that is updated with new events answers as if it had been trained on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate
from sdgar.errors import DataError, UsageError
from sdgar.recommend.recommender import Recommender, load
from sdgar.systems.bpr import BPR
from sdgar.systems.composed import Composed
from sdgar.systems.neighbours import LocalEASE
from sdgar.systems.quick import Quick
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.systems.solver import MostPopular

SHORT = {"epochs": 1, "early_stopping": False, "engine": "eager", "dim": 4}


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Rows with even numbers as ids of users, so that others fit between them."""
    found = generate(Shape(users=60, items=40, interactions=900, concentration=0.1), seed=0)
    return Interactions.from_arrays(2 * found.users_E, found.items_E)


@pytest.fixture(scope="module")
def models(data) -> dict[str, Recommender]:
    made = {
        "quick": Quick(dim=4, item_memory=2.0),
        "sdsoftmax": SDSoftmax(**SHORT, sampler__states=4, item_memory=0.0),
        "local-ease": LocalEASE(),
        "popular": MostPopular(),
        "bpr": BPR(**SHORT),
    }
    return {name: model.fit(data).recommender_ for name, model in made.items()}


def scores(model: Recommender, users: list[int]) -> np.ndarray:
    at = model.users.index_of(users)
    return model.model.score_all(at)


def items_of(model: Recommender, user: int) -> list[int]:
    return model.items.at(model.history.of(int(model.users.index_of([user])[0]))).tolist()


def lacking(model: Recommender, user: int, n: int) -> list[int]:
    return [item for item in model.items.values.tolist() if item not in items_of(model, user)][:n]


@pytest.mark.parametrize("name", ["quick", "sdsoftmax", "local-ease", "popular"])
def test_changed_and_new_users_are_answered_as_if_folded_in_from_all_they_have(models, name):
    model = models[name]
    more, new = lacking(model, 6, 3), lacking(model, 8, 5)
    after = model.update({6: more, 7: new, 201: new})
    assert sorted(items_of(after, 6)) == sorted(items_of(model, 6) + more)
    assert after.users.values.tolist() == sorted([*model.users.values.tolist(), 7, 201])
    whole = {6: items_of(model, 6) + more, 7: new, 201: new}
    folded = model.fold_in(whole)
    np.testing.assert_allclose(scores(after, [6, 7, 201]), scores(folded, [6, 7, 201]), atol=1e-5)
    others = [user for user in model.users.values.tolist() if user != 6]
    np.testing.assert_array_equal(scores(after, others), scores(model, others))
    assert not set(after.recommend([6], k=40)["item"]) & {*more, *items_of(model, 6)}


def test_a_model_without_fold_in_keeps_its_vectors_and_refuses_new_users(models):
    model = models["bpr"]
    more = lacking(model, 6, 2)
    after = model.update({6: more})
    np.testing.assert_array_equal(after.factors.user_UD, model.factors.user_UD)
    assert not set(after.recommend([6], k=40)["item"]) & set(more)
    with pytest.raises(UsageError, match="cannot be folded into a model of system 'bpr'") as error:
        model.update({6: more, 7: more})
    assert error.value.code == "no_fold_in"


@pytest.mark.parametrize("name", ["quick", "sdsoftmax", "local-ease"])
def test_an_updated_model_is_saved_with_all_that_it_knows(models, name, tmp_path):
    after = models[name].update({6: lacking(models[name], 6, 3), 7: [0, 1, 2]})
    again = load(after.save(tmp_path / "model"))
    assert again.recommend().equals(after.recommend())
    assert again.about["updated"] == {"users": 2, "rows": 6, "new_users": 1}
    # Users who are folded in later get the popularity of training, without the events.
    later = {"someone": [3, 4]}
    np.testing.assert_allclose(
        scores(again.fold_in(later), ["someone"]), scores(models[name].fold_in(later), ["someone"]),
        atol=1e-5,
    )  # fmt: skip


def test_items_that_the_model_does_not_know_are_refused_or_left_out(models):
    model = models["quick"]
    with pytest.raises(UsageError, match="unknown to the model: 999"):
        model.update({6: [999], 7: [999]})
    after = model.update({6: [999], 7: [999], 9: [999, 3]}, skip_unknown=True)
    assert after.users.index_of([7])[0] == -1
    assert items_of(after, 9) == [3]
    assert items_of(after, 6) == items_of(model, 6)


def test_ids_of_another_type_and_contexts_of_several_fields_are_refused(models):
    with pytest.raises(DataError, match="int64 in the model and text in the events"):
        models["quick"].update({"ann": [3]})
    fields = {"user": [6, 6], "daypart": ["day", "night"]}
    with pytest.raises(UsageError, match="a context is user, daypart"):
        models["quick"].update(Interactions.from_contexts(fields, [3, 4]))


pairs = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 39)), min_size=1, max_size=12)


@settings(max_examples=20)
@given(liked=pairs, disliked=pairs)
def test_histories_are_those_of_sets(models, liked, disliked):
    model, liked = models["local-ease"], sorted(set(liked))
    rows = Interactions.from_arrays(*zip(*liked, strict=True))
    rows = rows.with_seen(*(np.array(one) for one in zip(*disliked, strict=True)))
    against: dict[int, set[int]] = {}
    if rows.seen is not None:
        for u, i in zip(rows.seen.users_E, rows.seen.items_E, strict=True):
            against.setdefault(int(rows.users.values[u]), set()).add(int(rows.items.values[i]))
    after = model.update(rows)
    for user in {user for user, _ in liked}:
        before = items_of(model, user) if model.users.index_of([user])[0] >= 0 else []
        disliked_now = against.get(user, set())
        wanted = {*before, *(i for u, i in liked if u == user)} - disliked_now
        assert set(items_of(after, user)) == wanted
        assert not set(after.recommend([user], k=40)["item"]) & (wanted | disliked_now)


def test_a_model_of_sequences_sees_new_events_last_in_their_order():
    rows = Interactions.from_arrays([1, 1, 2, 2, 3], [0, 1, 2, 3, 4], time=[1, 2, 3, 4, 5])
    net = Composed(discriminator="sequence", sampler="uniform", objective="bpr", **SHORT).fit(rows)
    after = net.update({1: [4, 2], 9: [3, 0]})
    folded = net.fold_in({1: [0, 1, 4, 2], 9: [3, 0]})
    np.testing.assert_allclose(scores(after, [1, 9]), scores(folded, [1, 9]), atol=1e-6)
    other = net.fold_in({1: [0, 1, 2, 4], 9: [3, 0]})
    assert not np.allclose(scores(after, [1]), scores(other, [1]), atol=1e-6)
