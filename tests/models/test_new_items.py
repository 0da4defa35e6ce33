"""New items have the vectors of the mirrored objective, and the weights of a full solve."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from torch.testing import assert_close

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.errors import SdgarWarning, UsageError
from sdgar.maths import sphere
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.maths.rows import Rows
from sdgar.maths.sparse import SparseMatrix
from sdgar.maths.sphere import Contexts, Support
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.fold_in import LeastSquares, OnSphere

from ..sparse import dense_of, history_of, matrix_of, rows_of

CPU = torch.device("cpu")
TAU, RHO = 0.3, 1.2


def unit(rng: np.random.Generator, rows: int, dim: int = 4) -> torch.Tensor:
    return normalize(torch.from_numpy(rng.normal(size=(rows, dim))).float(), dim=1)


@pytest.fixture
def world():
    """Contexts and items on a sphere, and three new items with the contexts that have them."""
    rng = np.random.default_rng(3)
    user_UD, item_ID = unit(rng, 30), unit(rng, 12)
    bias_I = torch.from_numpy(rng.normal(size=12)).float()
    length_U = torch.from_numpy(rng.integers(1, 9, 30))
    count_I = torch.from_numpy(rng.integers(1, 20, 12))
    users = [[0, 3, 4, 9, 22], [1, 2], [7, 8, 11, 29]]
    start = np.cumsum([0, *map(len, users)])
    known = SparseMatrix.of(start, np.concatenate(users), 30, device=CPU)
    return user_UD, item_ID, bias_I, length_U, count_I, users, known


def arrays(*tensors: torch.Tensor) -> list[np.ndarray]:
    return [tensor.numpy() for tensor in tensors]


def contexts_of(user_UD, length_U, item_ID, bias_I, items, **how) -> Contexts:
    return Contexts.of(*arrays(user_UD, length_U, item_ID, bias_I), items, **how)


def offsets(user_UD, item_ID, bias_I, length_U) -> torch.Tensor:
    """a_c = log |I_c| - log Σ_j exp(û_c · v̂_j / τ + b_j), by enumeration in float64."""
    s_UI = user_UD.double() @ item_ID.double().T / TAU + bias_I.double()
    return length_U.double().log() - s_UI.exp().sum(dim=1).log()


def test_the_direction_of_an_item_is_flat_where_the_mirrored_objective_is(world, monkeypatch):
    monkeypatch.setattr(sphere, "LOOKS", 300)
    user_UD, item_ID, bias_I, length_U, count_I, users, known = world
    items = Support.of(count_I.numpy())
    contexts = contexts_of(user_UD, length_U, item_ID, bias_I, items, tau=TAU, rho=RHO)
    found_ND = torch.from_numpy(contexts.directions(rows_of(known)))
    a_U = offsets(user_UD, item_ID, bias_I, length_U)
    for v_D, own in zip(found_ND.double(), users, strict=True):
        v_D = v_D.clone().requires_grad_()
        others = [c for c in range(30) if c not in own]
        s_U = user_UD.double() @ v_D / TAU
        f = s_U[own].mean() / RHO - (s_U + a_U)[others].logsumexp(dim=0)
        (slope_D,) = torch.autograd.grad(f, v_D)
        along_D = TAU * (slope_D - (slope_D @ v_D) * v_D).detach()
        assert along_D.norm() < 2e-3


def test_the_bias_of_an_item_makes_the_softmax_expect_its_count(world):
    user_UD, item_ID, bias_I, length_U, count_I, _, known = world
    items = Support.of(count_I.numpy())
    contexts = contexts_of(user_UD, length_U, item_ID, bias_I, items, tau=TAU)
    v_ND = contexts.directions(rows_of(known))
    b_N = torch.from_numpy(contexts.biases(v_ND, known.length_R.numpy()))
    v_ND = torch.from_numpy(v_ND)
    z_U = (user_UD.double() @ item_ID.double().T / TAU + bias_I.double()).exp().sum(dim=1)
    s_UN = user_UD.double() @ v_ND.double().T / TAU + b_N.double()
    expected_N = (length_U.double()[:, None] * s_UN.exp() / z_U[:, None]).sum(dim=0)
    assert_close(expected_N, known.length_R.double(), rtol=1e-5, atol=0)


def test_the_bias_follows_the_line_of_the_biases_that_training_left(world):
    user_UD, item_ID, bias_I, length_U, count_I, _, known = world
    free = contexts_of(user_UD, length_U, item_ID, bias_I, Support.of(count_I.numpy()), tau=TAU)
    model = FactorTensors(user_UD / TAU, item_ID, bias_I).model()
    rule = OnSphere(TAU, 1.0, count_I.numpy())
    v_ND, b_N = rule.items(model, history_of(known), length_U.numpy())
    np.testing.assert_allclose(v_ND, free.directions(rows_of(known)), rtol=1e-5, atol=1e-6)
    x_I = free.biases(item_ID.numpy(), count_I.numpy()).astype(np.float64)
    slope, level = np.polyfit(x_I, bias_I.double().numpy(), 1)
    wanted = level + slope * free.biases(v_ND, known.length_R.numpy())
    np.testing.assert_allclose(b_N, wanted, rtol=1e-4, atol=1e-4)


def test_least_squares_of_an_item_are_those_of_the_mirrored_equations(world):
    user_UD, item_ID, bias_I, length_U, _, users, known = world
    rule = LeastSquares(alpha=0.1, l2=0.05, power=0.5)
    v_ND, b_N = rule.items(
        FactorTensors(user_UD, item_ID, bias_I).model(), history_of(known), length_U.numpy()
    )
    u_UD = user_UD.double().numpy()
    for found_D, own in zip(v_ND, users, strict=True):
        held = 0.05 * (len(own) + 0.1 * 30) ** 0.5
        left_DD = 0.1 * u_UD.T @ u_UD + u_UD[own].T @ u_UD[own] + held * np.eye(4)
        np.testing.assert_allclose(found_D, np.linalg.solve(left_DD, u_UD[own].sum(axis=0)), 1e-4)
    assert (b_N == 0).all()


def pairs(seed: int, users: int = 60, items: int = 20) -> SparseMatrix:
    """Rows with random weights, so that no two neighbours are equally near."""
    rng = np.random.default_rng(seed)
    x_UI = rng.random((users, items)) < 0.2
    items_E = np.nonzero(x_UI)[1]
    start_U1 = np.concatenate(([0], np.cumsum(x_UI.sum(axis=1))))
    weight_E = rng.uniform(0.5, 2, len(items_E)).astype(np.float32)
    return SparseMatrix.of(start_U1, items_E, items, weight_E, device=CPU)


def without(history: SparseMatrix, new: list[int]) -> SparseMatrix:
    keep_E = ~torch.isin(history.column_E, torch.tensor(new))
    count_U = torch.bincount(history.row_E[keep_E], minlength=history.n_rows)
    start_U1 = torch.cat((torch.zeros(1, dtype=torch.long), count_U.cumsum(0)))
    kept = history.column_E[keep_E], history.n_columns, history.weights()[keep_E]
    return SparseMatrix(start_U1, *kept)


def solved(rule: Neighbourhoods, history: SparseMatrix) -> Rows:
    return rule.weights(rows_of(history), history.n_columns, CPU)


def dense(rows: Rows) -> torch.Tensor:
    return dense_of(matrix_of(rows))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("new", [[7], [0, 13, 19]])
def test_weights_with_new_items_are_those_of_a_full_solve(seed, new):
    history = pairs(seed)
    rule = Neighbourhoods(k=4, l2=2.0, shrink=1.5, beta=0.0)
    before, wanted = solved(rule, without(history, new)), dense(solved(rule, history))
    assert not torch.equal(dense(before), wanted)
    found = rule.weights_with(rows_of(history), before, np.array(new))
    assert_close(dense(found), wanted, rtol=1e-4, atol=1e-6)
    matrix = matrix_of(found)
    start_E = matrix.row_E * 20 + matrix.column_E
    assert (start_E.diff() > 0).all()


def test_weights_that_new_items_have_no_part_in_stay_as_they_are():
    history, new = pairs(5, items=40), [3, 30]
    rule = Neighbourhoods(k=3, l2=2.0, shrink=1.5, beta=0.5)
    before, wanted = solved(rule, without(history, new)), dense(solved(rule, history))
    found = dense(rule.weights_with(rows_of(history), before, np.array(new)))
    solved_I = (wanted[new] != 0).any(dim=0)
    solved_I[new] = True
    assert 2 < solved_I.sum() < 40
    assert_close(found[:, solved_I], wanted[:, solved_I], rtol=1e-4, atol=1e-6)
    assert_close(found[:, ~solved_I], dense(before)[:, ~solved_I], rtol=0, atol=0)


@pytest.fixture(scope="module")
def colours() -> Interactions:
    """Fifty users like most items of one colour; white items are even."""
    own = np.add.outer(np.arange(50), np.arange(30)) % 2 == 0
    users, items = np.nonzero(own & (np.random.default_rng(0).random(own.shape) < 0.7))
    return Interactions.from_arrays(users, items)


SYSTEMS = {
    "ials": lambda: sdgar.IALS(dim=3),
    "quick": lambda: sdgar.Quick(dim=3),
    "local-ease": lambda: sdgar.LocalEASE(),
    "popular": lambda: sdgar.MostPopular(),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_new_item_is_recommended_to_those_who_are_like_its_users(colours, name, tmp_path):
    model = SYSTEMS[name]().fit(colours).recommender_
    grown = model.add_items({100: [0, 2, 4, 6, 8], -5: [1, 3, 5, 7, 9]})
    assert grown.items.values.tolist() == [-5, *range(30), 100]
    assert grown.history.of(0).tolist() == [*(model.history.of(0) + 1), 31]
    lists = grown.recommend([20, 21], k=2, items=[100, -5])["item"].to_list()
    assert lists == ([100, -5, -5, 100] if name != "popular" else [-5, 100, -5, 100])
    assert 100 not in grown.recommend([0], k=31)["item"].to_list()
    grown.save(tmp_path / "grown")
    again = sdgar.load(tmp_path / "grown")
    assert again.recommend(k=5).equals(grown.recommend(k=5))
    more = again.add_items({7000: [0, 10]})
    assert more.items.values[-1] == 7000
    assert sdgar.load(tmp_path / "grown").fold_in({"x": [100]}).recommend(k=1)["item"][0] % 2 == 0


@pytest.mark.parametrize("name", ["ials", "quick"])
def test_vectors_of_known_items_stay_as_they_are(colours, name):
    model = SYSTEMS[name]().fit(colours).recommender_
    grown = model.add_items({-1: [0, 2, 4]})
    np.testing.assert_array_equal(grown.factors.item_ID[1:], model.factors.item_ID)
    np.testing.assert_array_equal(grown.factors.bias_I[1:], model.factors.bias_I)


def test_the_weights_of_a_model_with_a_new_item_are_those_of_a_full_solve(colours):
    model = sdgar.LocalEASE(neighbours=50, beta=0.0).fit(colours[colours.items_E != 8])
    grown = model.add_items(colours[colours.items_E == 8])
    wanted = sdgar.LocalEASE(neighbours=50, beta=0.0).fit(colours).recommender_
    assert_close(dense(grown.model.weight_II), dense(wanted.model.weight_II), rtol=1e-4, atol=1e-6)


def test_an_added_item_of_popular_counts_like_any_other(colours):
    part = sdgar.MostPopular().fit(colours[colours.items_E != 3])
    grown = part.add_items(colours[colours.items_E == 3])
    whole = sdgar.MostPopular().fit(colours)
    assert grown.recommend([0, 1], k=30).equals(whole.recommend([0, 1], k=30))


@pytest.mark.parametrize(
    ("events", "code"),
    [
        (None, "no_items"),
        ({3: [0]}, "known_items"),
        ({100: [0, 4711]}, "unknown_user"),
        ({100: []}, "empty_item"),
        ({}, "empty_item"),
        ({100: "ann"}, "bad_events"),
        ([[0, 1]], "bad_events"),
    ],
)
def test_events_that_say_nothing_new_are_refused(colours, events, code):
    model = sdgar.IALS(dim=2, sweeps=2).fit(colours)
    with pytest.raises(UsageError) as refused:
        model.add_items(events)
    assert refused.value.code == code


def test_unknown_users_can_be_left_out_and_ids_of_another_kind_are_refused(colours):
    model = sdgar.IALS(dim=2, sweeps=2).fit(colours)
    with pytest.warns(SdgarWarning, match="unknown to the model"):
        grown = model.add_items({100: [0, 4711]}, skip_unknown=True)
    assert np.bincount(grown.history.items_E)[-1] == 1
    with pytest.raises(UsageError, match="no event of a user"), pytest.warns(SdgarWarning):
        model.add_items({100: [4711]}, skip_unknown=True)
    with pytest.raises(sdgar.SdgarError, match="Use one type"):
        model.add_items({"new": [0]})
    rows = Interactions.from_arrays([0], [100], weight=[2.0])
    with pytest.warns(SdgarWarning, match="weights"):
        model.add_items(rows)


@pytest.mark.parametrize("kind", [sdgar.EASE, sdgar.ItemKNN, sdgar.ELSA])
def test_a_model_without_a_rule_for_items_says_so(colours, kind):
    with pytest.raises(UsageError, match="new items cannot be added") as refused:
        kind().fit(colours).add_items({100: [0]})
    assert refused.value.code == "no_new_items"
