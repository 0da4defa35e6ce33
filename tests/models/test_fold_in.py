from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from torch.testing import assert_close

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.errors import ArtifactError, UsageError
from sdgar.storage import sealed
from sdgar.systems.names import SYSTEMS

LEARNING = {"epochs": 30, "early_stopping": False, "batch_size": 64, "engine": "eager"}
SOFTMAX = {"dim": 4, "n_negatives": 5, "tau": 0.3, "sampler__states": 4}


@pytest.fixture(scope="module")
def colours() -> Interactions:
    """Sixty users like most items of one colour, named by it."""
    own = np.add.outer(np.arange(60), np.arange(40)) % 2 == 0
    users, items = np.nonzero(own & (np.random.default_rng(0).random(own.shape) < 0.7))
    names = np.array([f"{'black' if i % 2 else 'white'}-{i}" for i in range(40)], dtype=object)
    return Interactions.from_arrays(users, names[items])


@pytest.fixture(scope="module")
def softmax(colours) -> sdgar.Recommender:
    return sdgar.SDSoftmax(**SOFTMAX, **LEARNING).fit(colours).recommender_


@pytest.mark.parametrize("name", ["item-knn", "ease", "elsa", "ials", "sdsoftmax"])
def test_someone_new_gets_what_goes_with_their_history(colours, name):
    settings = SOFTMAX | LEARNING if name == "sdsoftmax" else {}
    model = SYSTEMS[name](**settings).fit(colours)
    history = ["white-2", "white-10", "white-24"]
    frame = model.recommend(history=history, k=10)
    assert set(frame["user"]) == {"new"}
    assert all(item.startswith("white") for item in frame["item"])
    assert not set(frame["item"]) & set(history)


@pytest.mark.parametrize("name", ["popular", "item-knn", "ease", "elsa"])
def test_models_that_only_look_at_histories_treat_old_and_new_users_alike(colours, name):
    model = SYSTEMS[name]().fit(colours)
    assert model.fold_in(colours).recommend(k=5).equals(model.recommend(k=5))


def test_als_gives_a_new_user_the_vector_of_half_a_sweep(colours):
    model = sdgar.IALS(dim=3, sweeps=40).fit(colours)
    folded = model.fold_in(colours)
    # After many sweeps the users' rows and the items' rows fit each other.
    assert_close(folded.factors.user_UD, model.recommender_.factors.user_UD, rtol=1e-2, atol=1e-3)


def test_new_users_come_as_rows_as_lists_by_name_and_as_lists(softmax):
    history = ["white-2", "black-3", "white-4"]
    rows = Interactions.from_arrays(["eve"] * 3, history)
    of_rows = softmax.fold_in(rows).recommend("eve", k=4)
    of_names = softmax.fold_in({"eve": history}).recommend(k=4)
    of_lists = softmax.fold_in([history, ["white-6"]]).recommend([0], k=4)
    assert of_rows.equals(of_names)
    assert of_rows["item"].to_list() == of_lists["item"].to_list()
    assert softmax.recommend(history=history, k=4)["item"].equals(of_rows["item"])


def test_users_of_the_training_are_ranked_as_well_from_their_histories_alone(softmax, colours):
    def share_right(model: sdgar.Recommender) -> float:
        answers = model.recommend(k=3).iter_rows()
        return np.mean(
            [item.startswith(("white", "black")[user % 2]) for user, _, item, *_ in answers]
        )

    assert share_right(softmax.fold_in(colours)) >= share_right(softmax) - 0.02
    assert share_right(softmax) > 0.95


def test_unknown_items_are_refused_or_left_out_on_request(softmax):
    with pytest.raises(UsageError, match=r"1 item id is unknown to the model: 'green-1'"):
        softmax.fold_in({"eve": ["white-2", "green-1"]})
    some = softmax.fold_in({"eve": ["white-2", "green-1"]}, skip_unknown=True)
    assert some.recommend(k=3).equals(softmax.fold_in({"eve": ["white-2"]}).recommend(k=3))
    with pytest.raises(UsageError, match=r"1 new user has no item.*'zoe'.*most popular"):
        softmax.fold_in({"eve": ["white-2"], "zoe": ["green-1"]}, skip_unknown=True)


@pytest.mark.parametrize(
    ("histories", "message"),
    [
        ({"eve": []}, "1 histories are empty.*'eve'"),
        ([], "no history to fold in"),
        (["white-2"], r"this is text. Pass \[\['a', 'b'\]\]"),
    ],
)
def test_histories_that_say_nothing_are_refused(softmax, histories, message):
    with pytest.raises(UsageError, match=message):
        softmax.fold_in(histories)


@pytest.mark.parametrize(
    "model",
    [sdgar.BPR(dim=2, **LEARNING), sdgar.SDSoftmax(similarity="dot", **SOFTMAX, **LEARNING)],
)
def test_systems_without_a_rule_say_so_and_name_those_that_have_one(model, colours):
    with pytest.raises(UsageError, match=r"no rule.*sdsoftmax \(with similarity=cosine\)"):
        model.fit(colours).recommend(history=["white-2"])


def test_allowed_and_excluded_items_hold_for_new_users_too(softmax):
    frame = softmax.recommend(history=["white-2"], k=2, items=["white-4", "white-6", "black-1"])
    assert set(frame["item"]) == {"white-4", "white-6"}
    frame = softmax.recommend(history=["white-2"], k=40, exclude=["white-4"])
    assert "white-4" not in frame["item"]
    assert frame.filter(pl.col("short")).height == 38


def same_vectors(one: sdgar.Recommender, two: sdgar.Recommender) -> bool:
    return np.array_equal(one.factors.user_UD, two.factors.user_UD)


def test_a_model_with_users_folded_in_takes_more_as_the_model_it_was_made_from(softmax, tmp_path):
    folded = softmax.fold_in({"eve": ["white-2"]})
    zoe = {"zoe": ["black-3", "black-5"]}
    assert same_vectors(folded.fold_in(zoe), softmax.fold_in(zoe))
    again = sdgar.load(folded.save(tmp_path / "folded"))
    assert again.fold_in(zoe).recommend(k=5).equals(softmax.fold_in(zoe).recommend(k=5))


def test_the_rule_that_a_model_is_saved_with_is_a_record_of_numbers(softmax, tmp_path):
    said = sealed.read_table(softmax.save(tmp_path / "model") / sealed.MANIFEST)
    assert said["fold_in"] == {"rule": "sphere", "tau": 0.3, "rho": 1.0}


@pytest.mark.parametrize(
    "record",
    [
        "sphere",
        {"rule": "oracle"},
        {"rule": "sphere", "tau": 0.3},
        {"rule": "sphere", "tau": 0, "rho": 1},
        {"rule": "least squares", "alpha": -1},
    ],
)
def test_a_rule_that_no_training_gives_is_refused(softmax, tmp_path, record):
    path = softmax.save(tmp_path / "model") / sealed.MANIFEST
    said = sealed.read_table(path) | {"fold_in": record}
    del said[sealed.SEAL]
    path.write_text(json.dumps(sealed.with_seal(said)))
    with pytest.raises(ArtifactError, match="fold_in") as caught:
        sdgar.load(path.parent)
    assert caught.value.code == "damaged"


def test_parts_of_the_softmax_system_fold_in_as_the_system_does(colours):
    settings = {"sampler__states": 4, "discriminator__tau": 0.3}
    common = {"dim": 4, "n_negatives": 5} | LEARNING
    composed = sdgar.Composed(**common, **settings).fit(colours)
    system = sdgar.SDSoftmax(**SOFTMAX | LEARNING).fit(colours)
    new = {"eve": ["white-2", "white-4"]}
    assert np.array_equal(
        composed.recommender_.factors.item_ID, system.recommender_.factors.item_ID
    )
    assert same_vectors(composed.fold_in(new), system.fold_in(new))
