"""What every estimator promises, of the baselines."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch

import sdgar
from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import PRESETS, generate
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.systems.ease import EASE
from sdgar.systems.elsa import ELSA
from sdgar.systems.ials import IALS
from sdgar.systems.names import SYSTEMS
from sdgar.systems.neighbours import ItemKNN
from sdgar.systems.recipe import recipe_of, spec_of
from sdgar.systems.solver import MostPopular, Solver

from ..recommend.test_artifact import change_tensors, edit_manifest, plant
from ..sparse import matrix_of

YARDSTICKS = [e for e in SYSTEMS.values() if issubclass(e, Solver)]


@pytest.fixture(scope="module")
def demo() -> splits.Split:
    return splits.per_user(generate(PRESETS["demo"], seed=1), seed=1)


@pytest.fixture(scope="module", params=YARDSTICKS, ids=lambda kind: spec_of(kind).name)
def fitted(request, demo) -> Solver:
    return request.param(device="cpu").fit(demo.train)


def test_all_of_them_can_be_had_by_name():
    names = {"item-knn", "ials", "ease", "local-ease", "quick", "elsa"}
    assert {spec_of(e).name for e in YARDSTICKS} == names
    assert (sdgar.ItemKNN, sdgar.IALS, sdgar.EASE, sdgar.ELSA) == (ItemKNN, IALS, EASE, ELSA)


@pytest.mark.parametrize("kind", YARDSTICKS)
def test_the_checkerboard_is_solved(kind, checkerboard):
    frame = kind().fit(checkerboard).recommend(k=1)
    assert frame["item"].to_list() == frame["user"].to_list()


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


@pytest.mark.parametrize("kind", YARDSTICKS)
def test_the_same_seed_gives_the_same_bytes_for_the_same_number_of_threads(kind, demo, tmp_path):
    before, scores = torch.get_num_threads(), {}
    few = {"dim": 8} if "dim" in kind().get_params() else {}  # for more, threads wait for long
    try:
        for name, threads in (("one", 1), ("again", 1), ("two", 2)):
            torch.set_num_threads(threads)
            model = kind(device="cpu", **few).fit(demo.train)
            model.save(tmp_path / name)
            scores[name] = model.recommender_.model.score_all(np.arange(50))
    finally:
        torch.set_num_threads(before)
    one, again, two = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "again", "two")
    )
    assert one == again
    # A library of matrix products adds in another order when it has more threads; counts have none.
    assert one == two or kind is not ItemKNN
    np.testing.assert_allclose(scores["one"], scores["two"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (ItemKNN, "neighbours", 0),
        (ItemKNN, "shrink", -1.0),
        (IALS, "dim", 0),
        (IALS, "alpha", -0.1),
        (IALS, "l2", -0.1),
        (IALS, "power", -1.0),
        (IALS, "sweeps", 0),
        (IALS, "seed", -1),
        (EASE, "l2", -0.1),
        (EASE, "beta", -0.5),
        (EASE, "dropout", 1.0),
        (EASE, "xi", -0.1),
        (EASE, "alpha", -0.2),
        (EASE, "ram_gib", -1.0),
        (EASE, "device", "tpu"),
        (ELSA, "dim", 0),
        (ELSA, "learning_rate", -0.1),
        (ELSA, "epochs", 0),
        (ELSA, "batch_size", 0),
        (ELSA, "seed", -1),
    ],
)
def test_the_constructor_checks_nothing_and_fit_checks_all(kind, name, value, checkerboard):
    model = kind(**{name: value})
    with pytest.raises(UsageError, match=str(value)):
        model.fit(checkerboard)


@pytest.mark.parametrize("kind", YARDSTICKS)
def test_data_that_nobody_can_learn_from_is_refused(kind):
    with pytest.raises(DataError, match="needs at least 2"):
        kind().fit(Interactions.from_arrays([1, 1], [1, 2]))


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


BARE = """
import sys
for name in ("scipy", "numba", "polars", "safetensors", "sklearn", "torch._dynamo"):
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


def test_torch_and_numpy_are_enough_to_compute_and_rank():
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False)
    wanted = ["item-knn True", "ials True", "ease True", "elsa True", ""]
    assert done.stdout.split("\n") == wanted, done.stderr
