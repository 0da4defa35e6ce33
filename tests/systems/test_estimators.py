"""What every estimator promises."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import sdgar
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import PRESETS, generate
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.systems.base import Estimator
from sdgar.systems.bpr import BPR, DNS
from sdgar.systems.ease import EASE
from sdgar.systems.elsa import ELSA
from sdgar.systems.hinges import CML, WARP
from sdgar.systems.ials import IALS
from sdgar.systems.irgan import IRGAN
from sdgar.systems.make import estimator_from_text
from sdgar.systems.names import SYSTEMS
from sdgar.systems.neighbours import ItemKNN
from sdgar.systems.quick import Quick
from sdgar.systems.recipe import recipe_of, spec_of
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.systems.solver import MostPopular, Solver
from sdgar.training.fitting import Fit

from ..recommend.test_artifact import change_tensors, edit_manifest, plant
from ..sparse import matrix_of

BASELINES = [e for e in SYSTEMS.values() if issubclass(e, Solver)]


@pytest.fixture(scope="module")
def demo() -> splits.Split:
    return splits.per_user(generate(PRESETS["demo"], seed=1), seed=1)


@pytest.fixture(scope="module", params=[*BASELINES, BPR], ids=lambda kind: spec_of(kind).name)
def fitted(request, demo) -> Estimator:
    return request.param(device="cpu").fit(demo.train)


def test_all_of_them_can_be_had_by_name():
    names = {"item-knn", "ials", "ease", "local-ease", "transitions", "quick", "elsa"}
    assert {spec_of(e).name for e in BASELINES} == names
    assert (sdgar.ItemKNN, sdgar.IALS, sdgar.EASE, sdgar.ELSA) == (ItemKNN, IALS, EASE, ELSA)


def test_each_beats_most_popular_clearly(fitted, demo):
    popular = MostPopular().fit(demo.train).evaluate(demo.held_out).means()["ndcg@50"]
    assert fitted.evaluate(demo.held_out).means()["ndcg@50"] > 1.3 * popular


def test_a_saved_model_answers_as_before(fitted, demo, tmp_path):
    fitted.save(tmp_path / "m")
    again = sdgar.load(tmp_path / "m")
    assert again.about["system"] == recipe_of(fitted).name
    assert again.about["hyper_parameters"] == recipe_of(fitted).settings
    assert again.recommend(k=20).equals(fitted.recommend(k=20))
    some = demo.train.items.values[:5].tolist()
    assert again.similar_items(some).equals(fitted.similar_items(some))
    assert again.evaluate(demo.held_out).means() == fitted.evaluate(demo.held_out).means()
    again.save(tmp_path / "again")
    for name in ("model", "ids", "history"):
        files = [tmp_path / folder / f"{name}.safetensors" for folder in ("m", "again")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_no_one_is_recommended_what_they_have_unless_requested(fitted, demo):
    user = demo.train.users.values[0]
    has = set(demo.train.items.at(demo.train.history.of(0)))
    assert not has & set(fitted.recommend([user], k=100)["item"])
    assert has & set(fitted.recommend([user], k=1000, exclude_seen=False)["item"])


@pytest.mark.parametrize("kind", [ItemKNN, EASE])
def test_similar_items_are_those_that_the_item_speaks_for(kind, checkerboard):
    model = kind().fit(checkerboard)
    weight_II = model.recommender_.model.weight_II
    if kind is ItemKNN:
        sparse, weight_II = matrix_of(weight_II), np.zeros((40, 40), np.float32)
        weight_II[sparse.row_E, sparse.column_E] = sparse.weights()
    frame = model.similar_items([6, 7], k=5)
    for item in (6, 7):
        best = np.argsort(-weight_II[item], kind="stable")[:5]
        found = frame.filter(pl.col("like") == item)
        assert found["item"].to_list() == best.tolist()
        assert found["score"].to_list() == weight_II[item, best].tolist()
        assert item not in found["item"]


@pytest.mark.parametrize("kind", [ItemKNN, EASE, ELSA])
def test_a_model_of_item_weights_says_that_it_has_no_vectors(kind, checkerboard):
    with pytest.raises(UsageError, match=f"{spec_of(kind).name} has weights from item to item"):
        _ = kind().fit(checkerboard).recommender_.factors


@pytest.mark.parametrize("kind", BASELINES)
def test_the_same_seed_gives_the_same_bytes_for_the_same_number_of_threads(
    kind, demo, tmp_path, set_threads
):
    scores = {}
    few = {"dim": 8} if "dim" in kind().get_params() else {}  # for more, threads wait for long
    for name, threads in (("one", 1), ("again", 1), ("two", 2)):
        set_threads(threads)
        model = kind(device="cpu", **few).fit(demo.train)
        model.save(tmp_path / name)
        scores[name] = model.recommender_.model.score_all(np.arange(50))
    one, again, two = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "again", "two")
    )
    assert one == again
    # A library of matrix products adds in another order when it has more threads; counts have none.
    assert one == two or kind is not ItemKNN
    np.testing.assert_allclose(scores["one"], scores["two"], rtol=1e-3, atol=1e-3)


REFUSED = {
    BPR: {"dim": 0, "learning_rate": -1.0, "l2": -0.1, "n_negatives": 0, "batch_size": 0}
    | {"epochs": 0, "early_stopping__every": 0, "early_stopping__patience": 0}
    | {"seed": -1, "device": "tpu", "engine": "warp drive", "item_memory": -1.0},
    CML: {"margin": -1.0, "covariance": -1.0},
    DNS: {"candidates": 0},
    WARP: {"max_tries": 0, "margin": -1.0},
    SDGAR: {"sampler__samples": 0},
    SDSoftmax: {"sampler__floor_x": 0.0, "sampler__floor_y": 1.0, "similarity__rho": 0.0},
    IRGAN: {"side": "nobody", "sampler__reward": "cash", "sampler__temperature": 0.0}
    | {"sampler__positive_share": 1.0, "sampler__samples": 1, "sampler__learning_rate": 0.0}
    | {"sampler__pretrain_rate": -1.0, "sampler__pretrain": -1},
    Quick: {"dim": 0, "sweeps": -1, "item_memory": -1.0, "item_memory__neighbours": 0},
    ItemKNN: {"neighbours": 0, "shrink": -1.0},
    IALS: {"dim": 0, "alpha": -0.1, "l2": -0.1, "power": -1.0, "sweeps": 0, "seed": -1},
    EASE: {"l2": -0.1, "beta": -0.5, "dropout": 1.0, "xi": -0.1, "alpha": -0.2}
    | {"ram_gib": -1.0, "device": "tpu"},
    ELSA: {"dim": 0, "learning_rate": -0.1, "epochs": 0, "batch_size": 0, "seed": -1},
}
"""Values that settings cannot have."""


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, name, value) for kind, bad in REFUSED.items() for name, value in bad.items()],
)
def test_the_constructor_checks_nothing_and_fit_checks_all(kind, name, value, checkerboard):
    model = kind(**{name: value})
    with pytest.raises(UsageError) as error:
        model.fit(checkerboard)
    assert name.rpartition("__")[2] in str(error.value)
    assert str(value) in str(error.value)


@pytest.mark.parametrize("kind", [*BASELINES, BPR])
@pytest.mark.parametrize(
    ("users", "items", "code"),
    [
        ([1, 1, 1], [1, 2, 3], "one_user"),
        ([1, 2, 3], [1, 1, 1], "one_item"),
        ([1, 1, 2, 2], [1, 2, 1, 2], "no_negatives"),
    ],
)
def test_data_that_nobody_can_learn_from_is_refused_without_a_hang(kind, users, items, code):
    with pytest.raises(DataError) as error:
        kind().fit(Interactions.from_arrays(users, items))
    assert error.value.code == code


DAMAGES = {
    "nan": (EASE, plant("weight_II", np.nan), "weight_II holds a number that is not finite"),
    "not_square": (EASE, lambda t: t.update(weight_II=t["weight_II"][1:]), "expected float32"),
    "infinite": (ItemKNN, plant("weight_E", np.inf), "weight_E holds a number that is not finite"),
    "negative": (ItemKNN, plant("weight_E", -1.0), "not positive"),
    "outside": (ItemKNN, plant("items_E", 40), "outside the catalogue"),
    "backwards": (ItemKNN, plant("indptr_I1", 1), "indptr_I1 does not describe the rows"),
    "vectors": (ELSA, plant("item_ID", np.nan), "item_ID holds a number that is not finite"),
    "fewer": (ELSA, lambda t: t.update(item_ID=t["item_ID"][1:]), "expected float32"),
    "other_kind": (ItemKNN, lambda t: t.pop("indptr_I1"), "expected"),
}


@pytest.mark.parametrize("case", sorted(DAMAGES))
def test_item_weights_that_cannot_be_are_refused_by_name(case, checkerboard, tmp_path):
    kind, change, message = DAMAGES[case]
    folder = kind().fit(checkerboard).save(tmp_path / "m")
    change_tensors(folder, "model.safetensors", change)
    with pytest.raises(ArtifactError, match=message) as error:
        sdgar.load(folder)
    assert "model.safetensors" in str(error.value)


def test_a_model_of_an_unknown_kind_is_refused(checkerboard, tmp_path):
    folder = EASE().fit(checkerboard).save(tmp_path / "m")
    edit_manifest(folder, model="oracle")
    with pytest.raises(ArtifactError, match="no model is of the kind 'oracle'"):
        sdgar.load(folder)
    edit_manifest(folder, model="factors")
    with pytest.raises(ArtifactError, match=r"sizes\.dim is missing"):
        sdgar.load(folder)


@pytest.mark.parametrize("kind", SYSTEMS.values())
def test_parameters_can_be_read_set_and_cloned(kind):
    model = kind()
    assert clone(model).get_params() == model.get_params()
    if "dim" in model.get_params():
        assert model.set_params(dim=7) is model
        assert clone(model).get_params()["dim"] == 7
    with pytest.raises(UsageError, match="unknown parameter"):
        model.set_params(dimm=7)


def test_an_unfitted_model_says_how_to_get_a_fitted_one(tmp_path):
    with pytest.raises(UsageError, match=r"fit\(train\) first"):
        BPR().recommend(["a"])
    with pytest.raises(UsageError, match="not fitted"):
        BPR().save(tmp_path / "m")


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


def test_without_validation_rows_or_with_a_refit_all_rows_are_trained_on(demo):
    part = splits.validation(demo.train, seed=0)
    for rows in ((demo.train,), (part.train, part.held_out)):
        model = BPR(epochs=5).fit(*rows, refit=True).recommender_
        assert len(model.history.items_E) == len(demo.train)
        assert model.users.values.tolist() == demo.train.users.values.tolist()


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_threads(demo, tmp_path, set_threads):
    for name, threads, seed in (("one", 1, 3), ("two", 2, 3), ("other", 1, 4)):
        set_threads(threads)
        BPR(epochs=4, early_stopping__every=2, seed=seed).fit(demo.train).save(tmp_path / name)
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
    model = estimator_from_text("bpr", {"dim": "64", "l2": "0.03", "early_stopping": "false"})
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
        estimator_from_text(system, settings)


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


BARE = """
import sys
for name in ("scipy", "polars", "safetensors", "sklearn", "torch._dynamo"):
    sys.modules[name] = None
import numpy as np, torch
from sdgar.data.held_out import HeldOut
from sdgar.data.interactions import Interactions
from sdgar.evaluation.report import evaluate
from sdgar.systems.ease import EASE
from sdgar.systems.elsa import ELSA
from sdgar.systems.ials import IALS
from sdgar.systems.neighbours import ItemKNN
users, items = np.nonzero(np.add.outer(np.arange(20), np.arange(30)) % 3 > 0)
train, test = (
    Interactions.from_arrays(users[part], items[part]) for part in (users != items, users == items)
)
for kind in (ItemKNN, IALS, EASE, ELSA):
    model = kind()._solve(train, device=torch.device("cpu"))
    report = evaluate(model, HeldOut.of(test, train), seen=train.history, ks=(5,))
    print(kind._spec.name, report.means()["ndcg@5"] > 0)
"""


def test_torch_numpy_and_numba_are_enough_to_compute_and_rank():
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False)
    wanted = ["item-knn True", "ials True", "ease True", "elsa True", ""]
    assert done.stdout.split("\n") == wanted, done.stderr
