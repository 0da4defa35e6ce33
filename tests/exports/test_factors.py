"""Vectors of other libraries become models like any other."""

from __future__ import annotations

import numpy as np
import pytest

import sdgar
from sdgar.errors import DataError, NumericalError, UsageError
from sdgar.exports.factors import read_arrays

RNG = np.random.default_rng(3)
USERS, ITEMS = ["bob", "ann", "cid"], [30, 10, 20, 40]
U, V, B = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2)), RNG.normal(size=4)


def events() -> sdgar.Interactions:
    return sdgar.Interactions.from_arrays(["ann", "bob", "cid", "cid"], [10, 20, 30, 40])


def imported(**more) -> sdgar.Recommender:
    return sdgar.import_factors(
        U, V, **{"users": USERS, "items": ITEMS, "item_biases": B, "events": events()} | more
    )


def test_scores_belong_to_the_ids_of_their_rows_whatever_their_order():
    model = imported()
    assert model.users.values.tolist() == ["ann", "bob", "cid"]
    for u, user in enumerate(USERS):
        for i, item in enumerate(ITEMS):
            score = model.score_pairs(user, item)["score"][0]
            assert score == pytest.approx(U[u] @ V[i] + B[i], rel=1e-5)
    assert 10 not in model.recommend("ann", k=9)["item"].to_list()
    assert model.similar_items(10, k=1).height == 1


def test_it_is_saved_measured_and_blended_with_a_memory(tmp_path):
    model = sdgar.load(imported().save(tmp_path / "m"))
    assert model.about["system"] == "imported"
    assert model.recommend(["ann"], k=3).equals(imported().recommend(["ann"], k=3))
    test = sdgar.Interactions.from_arrays(["ann"], [20])
    assert 0 < model.evaluate(test, ks=(3,)).means()["hit@3"] <= 1
    memory = sdgar.LocalEASE().fit(events())
    both = sdgar.blend(model, memory, weight=0.5).model
    pairs = [m.score_pairs("cid", 10)["score"][0] for m in (both, model, memory)]
    assert pairs[0] == pytest.approx(pairs[1] + 0.5 * pairs[2], rel=1e-5)
    with pytest.raises(UsageError, match="new users"):
        model.recommend(history=[10])


def test_without_ids_rows_are_known_by_their_numbers():
    model = sdgar.import_factors(U, V)
    assert model.users.values.tolist() == [0, 1, 2]
    assert model.recommend(1, k=4).height == 4


@pytest.mark.parametrize(
    ("more", "kind", "said"),
    [
        ({"users": ["bob", "ann"]}, UsageError, "2 users and 3 rows"),
        ({"users": ["bob", "ann", "bob"]}, DataError, "'bob' stands twice"),
        ({"users": ["bob", "ann", "dan"]}, DataError, "the first is 'cid'"),
        ({"items": [1, 2, 3, 4]}, DataError, "4 of 4 items of the events"),
        ({"item_biases": [1.0]}, UsageError, "one number an item"),
        ({"item_biases": [1.0, np.nan, 0, 0]}, NumericalError, "first in row 1"),
        ({"item_biases": ["a"]}, UsageError, "array of numbers"),
        ({"events": [1]}, UsageError, "events must be Interactions"),
    ],
)
def test_what_does_not_fit_is_refused(more, kind, said):
    with pytest.raises(kind, match=said):
        imported(**more)


@pytest.mark.parametrize(
    ("user", "item", "said"),
    [(U, V[:, :1], "2 numbers a row and item_factors 1"), (U[0], V, "a vector a row")],
)
def test_tables_that_do_not_fit_are_refused(user, item, said):
    with pytest.raises(UsageError, match=said):
        sdgar.import_factors(user, item)


def test_a_file_is_read_without_running_code(tmp_path):
    path = tmp_path / "factors.npz"
    np.savez(path, user_factors=U, item_factors=V, random_state=np.array(object(), object))
    found = read_arrays(path)
    assert np.array_equal(found.user_factors, U)
    assert found.users is None
    np.savez(path, user_factors=np.array([object()], object), item_factors=V)
    with pytest.raises(DataError, match="allow_pickle"):
        read_arrays(path)
    np.savez(path, user_factors=U, other=V)
    with pytest.raises(DataError, match="no array 'item_factors'; it holds user_factors, other"):
        read_arrays(path)
    np.save(tmp_path / "one.npy", U)
    with pytest.raises(DataError, match="one array"):
        read_arrays(tmp_path / "one.npy")
    path.write_bytes(path.read_bytes()[:90])
    with pytest.raises(DataError, match="holds no factors"):
        read_arrays(path)
    with pytest.raises(sdgar.SdgarError, match="No such file"):
        read_arrays(tmp_path / "missing.npz")


def test_what_implicit_saved_gives_its_lists(tmp_path):
    implicit = pytest.importorskip("implicit", reason="implicit is not installed (group bench)")
    from scipy.sparse import csr_matrix

    X = csr_matrix((RNG.random((12, 9)) < 0.4).astype(np.float32))
    theirs = implicit.als.AlternatingLeastSquares(factors=4, iterations=2, random_state=1)
    theirs.fit(X, show_progress=False)
    theirs.save(str(tmp_path / "als.npz"))
    arrays = read_arrays(tmp_path / "als.npz")
    rows = sdgar.Interactions.from_csr(X)
    ours = sdgar.import_factors(arrays.user_factors, arrays.item_factors, events=rows)
    for user in range(X.shape[0]):
        ids, scores = theirs.recommend(user, X[user], N=4)
        found = ours.recommend(user, k=4)
        assert found["item"].to_list() == ids[: found.height].tolist()
        np.testing.assert_allclose(found["score"], scores[: found.height], rtol=1e-4, atol=1e-5)
