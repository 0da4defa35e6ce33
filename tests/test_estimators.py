from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

import sdgar
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import PRESETS, generate
from sdgar.errors import DataError, UsageError
from sdgar.systems.bpr import BPR
from sdgar.systems.cml import CML
from sdgar.systems.learner import Learner
from sdgar.systems.make import make
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of
from sdgar.systems.solver import MostPopular
from sdgar.training.fitting import Fit

LEARNERS = [e for e in SYSTEMS.values() if issubclass(e, Learner)]


@pytest.fixture(scope="module")
def demo() -> splits.Split:
    return splits.per_user(generate(PRESETS["demo"], seed=1), seed=1)


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_checkerboard_is_solved(kind, checkerboard):
    # CML pushes away the nearest of its negatives. Of the 21 items a user lacks one is the answer,
    # and 20 draws would nearly always find it: with 5 it is left in peace often enough.
    few = {"n_negatives": 5} if kind is CML else {}
    model = kind(dim=8, epochs=60, early_stopping=False, batch_size=64, learning_rate=0.02, **few)
    model.fit(checkerboard)
    frame = model.recommend(k=1)
    assert frame["item"].to_list() == frame["user"].to_list()


@pytest.mark.parametrize("kind", SYSTEMS.values())
def test_parameters_can_be_read_set_and_cloned(kind):
    model = kind()
    assert clone(model).get_params() == model.get_params()
    if "dim" in model.get_params():
        assert model.set_params(dim=7) is model
        assert clone(model).get_params()["dim"] == 7
    with pytest.raises(UsageError, match="unknown parameter"):
        model.set_params(dimm=7)


def test_the_constructor_checks_nothing_and_fit_checks_all(checkerboard):
    bad = {"dim": 0, "learning_rate": -1.0, "l2": -0.1, "n_negatives": 0, "batch_size": 0}
    bad |= {
        "epochs": 0,
        "early_stopping__every": 0,
        "early_stopping__patience": 0,
        "seed": -1,
        "device": "tpu",
    }
    bad |= {"engine": "warp drive"}
    for name, value in bad.items():
        with pytest.raises(UsageError, match=str(value)):
            BPR(**{name: value}).fit(checkerboard)


def test_an_unfitted_model_says_how_to_get_a_fitted_one(tmp_path):
    with pytest.raises(UsageError, match=r"fit\(train\) first"):
        BPR().recommend(["a"])
    with pytest.raises(UsageError, match="not fitted"):
        BPR().save(tmp_path / "m")


def test_fit_beats_most_popular_clearly(demo):
    model = BPR(seed=0).fit(demo.train)
    mine = model.evaluate(demo.held_out).means()["ndcg@50"]
    popular = MostPopular().fit(demo.train).evaluate(demo.held_out).means()["ndcg@50"]
    assert mine > 1.3 * popular


def test_validation_rows_choose_the_epoch_and_best_weights_are_restored(demo):
    part = splits.validation(demo.train, seed=0)
    model = BPR(epochs=60, early_stopping__every=2, early_stopping__patience=2).fit(
        part.train, part.held_out
    )
    looks = {r.epoch: r.metric for _, r in recipe_of(model).trained.log if r.metric is not None}
    assert recipe_of(model).trained.best_epoch == max(looks, key=looks.get)
    now = model.evaluate(part.held_out, ks=(50,)).means()["ndcg@50"]
    assert now == pytest.approx(looks[recipe_of(model).trained.best_epoch], abs=1e-12)
    assert recipe_of(model).trained.valid["ndcg@50"] == pytest.approx(now, abs=1e-12)


def test_without_validation_rows_the_model_is_trained_on_all_rows(demo):
    model = BPR(epochs=10, early_stopping__every=5).fit(demo.train)
    assert len(model.recommender_.history.items_E) == len(demo.train)
    assert model.recommender_.users.values.tolist() == demo.train.users.values.tolist()


def test_refitting_learns_from_the_validation_rows_too(demo):
    part = splits.validation(demo.train, seed=0)
    model = BPR(epochs=5).fit(part.train, part.held_out, refit=True)
    assert len(model.recommender_.history.items_E) == len(demo.train)


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_threads(demo, tmp_path):
    before = torch.get_num_threads()
    try:
        for name, threads, seed in (("one", 1, 3), ("two", 2, 3), ("other", 1, 4)):
            torch.set_num_threads(threads)
            BPR(epochs=4, early_stopping__every=2, seed=seed).fit(demo.train).save(tmp_path / name)
    finally:
        torch.set_num_threads(before)
    one, two, other = (
        (tmp_path / n / "model.safetensors").read_bytes() for n in ("one", "two", "other")
    )
    assert one == two != other


def test_row_order_and_new_names_for_ids_do_not_change_the_model(demo):
    data = demo.train
    shuffled = np.random.default_rng(0).permutation(len(data))
    renamed = Interactions.from_arrays(
        data.users_E[shuffled] + 1000, data.items_E[shuffled].astype(np.int64) + 5000
    )
    models = [
        BPR(epochs=3, early_stopping=False).fit(d).recommender_.factors for d in (data, renamed)
    ]
    assert np.array_equal(models[0].user_UD, models[1].user_UD)
    assert np.array_equal(models[0].item_ID, models[1].item_ID)


def test_equal_weights_are_no_weights(checkerboard):
    weighted = Interactions.from_arrays(
        checkerboard.users_E, checkerboard.items_E, weight=np.full(len(checkerboard), 3.0)
    )
    vectors = [
        BPR(epochs=3, early_stopping=False).fit(d).recommender_.factors.user_UD
        for d in (checkerboard, weighted)
    ]
    assert np.array_equal(*vectors)


@pytest.mark.parametrize(
    ("users", "items", "code"),
    [
        ([1, 1, 1], [1, 2, 3], "one_user"),
        ([1, 2, 3], [1, 1, 1], "one_item"),
        ([1, 1, 2, 2], [1, 2, 1, 2], "no_negatives"),
    ],
)
def test_data_that_nobody_can_learn_from_is_refused_without_a_hang(users, items, code):
    with pytest.raises(DataError) as error:
        BPR().fit(Interactions.from_arrays(users, items))
    assert error.value.code == code


def test_more_dimensions_than_users_train(checkerboard):
    model = BPR(dim=64, epochs=2, early_stopping=False).fit(checkerboard)
    assert np.isfinite(model.recommender_.factors.user_UD).all()


def test_the_papers_protocol_looks_at_test_rows_every_five_epochs_to_75(demo):
    model = recipe_of(BPR(batch_size=20_000)).fit(
        Fit(rows=demo.train, test=demo.held_out, protocol="paper")
    )
    looks = [r.epoch for _, r in recipe_of(model).trained.log if r.metric is not None]
    assert looks == list(range(5, 80, 5))
    best = max(r.metric for _, r in recipe_of(model).trained.log if r.metric is not None)
    got = model.evaluate(demo.held_out, ks=(50,)).means()["ndcg@50"]
    assert got == pytest.approx(best, abs=1e-12)


def test_settings_given_as_text_get_their_types():
    model = make("bpr", {"dim": "64", "l2": "0.03", "early_stopping": "false"})
    assert (model.dim, model.l2, model.early_stopping.enabled) == (64, 0.03, False)


@pytest.mark.parametrize(
    ("system", "settings", "message"),
    [
        ("bprr", {}, "Did you mean 'bpr'"),
        ("bpr", {"lamda": "1"}, "unknown setting of bpr 'lamda'"),
        ("bpr", {"dimm": "1"}, "Did you mean 'dim'"),
        ("bpr", {"dim": "1.5"}, "dim must be of type int, got '1.5'"),
        ("bpr", {"l2": "0,5"}, "l2 must be of type float, got '0,5'"),
        ("bpr", {"early_stopping": "maybe"}, "must be true or false"),
    ],
)
def test_a_misspelt_system_or_setting_names_the_cure(system, settings, message):
    with pytest.raises(UsageError, match=message):
        make(system, settings)


def test_the_package_gives_its_names_lazily():
    assert sdgar.BPR is BPR
    assert set(sdgar.__all__) <= set(dir(sdgar))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sdgar.nonsense


@pytest.mark.parametrize(
    ("queried", "optimizer", "ran"),
    [
        ("eager", "lazy-adam", "eager"),
        ("fused-cpu", "lazy-adam", "fused-cpu"),
        ("auto", "lazy-adam", "fused-cpu"),
        ("auto", "adam", "eager"),
    ],
)
def test_the_manifest_reports_how_the_model_was_made(
    checkerboard, tmp_path, queried, optimizer, ran
):
    model = BPR(
        epochs=2, early_stopping=False, seed=9, engine=queried, optimizer=optimizer, device="cpu"
    )
    model.fit(checkerboard).save(tmp_path / "m")
    about = sdgar.load(tmp_path / "m").about
    assert about["system"] == "bpr"
    assert about["seed"] == about["hyper_parameters"]["seed"] == 9
    assert about["engine"]["name"] == ran
    assert about["engine"]["why"]
    assert about["data"]["fingerprint"] == checkerboard.fingerprint()
    assert about["data"]["rows"]["read"] == len(checkerboard)


@pytest.mark.parametrize("number", [-1, 1e30, float("inf"), float("nan")])
def test_a_number_out_of_bounds_is_refused_with_both_bounds(number):
    with pytest.raises(UsageError, match=r"at least 0 and below 1e\+30, got"):
        sdgar.EASE(l2=number).fit(generate(PRESETS["demo"], seed=1))
