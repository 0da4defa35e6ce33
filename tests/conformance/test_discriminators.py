"""What every discriminator owes: its three ways of scoring agree."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from sdgar.discriminators.bounded import Cosine, MetricModel
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import UsageError


def factorization(**changes) -> MatrixFactorization:
    made = MatrixFactorization(7, 11, 5, **({"seed": 3, "init_scale": 3.0} | changes))
    with torch.no_grad():
        made.bias_I += torch.arange(11) / 10
    return made


def metric(**changes) -> MetricModel:
    return MetricModel(7, 11, 5, **({"seed": 3} | changes))


def cosine(**changes) -> Cosine:
    return Cosine(7, 11, 5, **({"seed": 3, "tau": 0.2} | changes))


def biased_cosine(**changes) -> Cosine:
    made = cosine(bias=True, **changes)
    with torch.no_grad():
        made.bias_I += torch.arange(11) / 10
    return made


DISCRIMINATORS = {
    "matrix factorization": factorization,
    "metric": metric,
    "cosine": cosine,
    "cosine and bias": biased_cosine,
}


@pytest.fixture(params=sorted(DISCRIMINATORS))
def make(request):
    return DISCRIMINATORS[request.param]


@pytest.fixture
def model(make):
    return make()


def test_scores_of_some_items_are_those_of_all_items(model):
    users_B = torch.tensor([0, 6, 3])
    items_BN = torch.tensor([[0, 10], [5, 5], [2, 9]])
    assert_close(model.score(users_B, items_BN), model.score_all(users_B).gather(1, items_BN))
    assert_close(model.factors().score_all(users_B), model.score_all(users_B))


def test_a_row_of_scores_depends_on_that_row_only(model):
    users_B, items_BN = torch.arange(7), torch.arange(14).reshape(7, 2) % 11
    whole_BN = model.score(users_B, items_BN)
    for b in range(7):
        assert_close(model.score(users_B[b : b + 1], items_BN[b : b + 1])[0], whole_BN[b])


def test_the_penalty_of_factorization_is_the_norms_of_the_rows_touched():
    model = MatrixFactorization(7, 11, 5, seed=3, init_scale=3.0)
    users_B, items_BN = torch.tensor([2, 4]), torch.tensor([[1, 3, 9], [8, 8, 0]])
    _, penalty_B = model.score_and_penalty(users_B, items_BN)
    f = model.factors()
    norm_I = f.item_ID.square().sum(1) + f.bias_I**2
    for b in range(2):
        pos, *neg = items_BN[b].tolist()
        expected = f.user_UD[users_B[b]].square().sum() + norm_I[pos] + norm_I[neg].mean()
        assert_close(penalty_B[b], expected)


def test_the_scores_with_a_penalty_are_the_scores(model):
    users_B, items_BN = torch.tensor([2, 4]), torch.tensor([[1, 3, 9], [8, 8, 0]])
    s_BN, penalty_B = model.score_and_penalty(users_B, items_BN)
    assert_close(s_BN, model.score(users_B, items_BN))
    assert penalty_B.shape == (2,)
    assert (penalty_B >= 0).all()


def test_what_recommends_is_detached(model):
    factors = model.factors()
    assert not any(t.requires_grad for t in (factors.user_UD, factors.item_ID, factors.bias_I))


def test_settling_twice_is_settling_once(model):
    users_B, items_BN = torch.tensor([2, 4]), torch.tensor([[1, 3, 9], [8, 8, 0]])
    with torch.no_grad():
        model.item_ID *= 2
    model.project(users_B, items_BN)
    once = [p.detach().clone() for p in model.parameters()]
    model.project(users_B, items_BN)
    for parameter, before in zip(model.parameters(), once, strict=True):
        assert_close(parameter.detach(), before)


def test_the_same_seed_starts_the_same_and_another_does_not(make):
    first, same, other = (make(seed=s).user_UD for s in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("kind", [MatrixFactorization, MetricModel])
def test_an_embedding_without_dimensions_is_refused(kind):
    with pytest.raises(UsageError, match="dim must be an integer of at least 1, got 0"):
        kind(5, 6, 0, seed=1)


def test_a_sparse_gradient_is_the_dense_one_and_names_the_rows_of_the_batch(make):
    users_B, items_BN = torch.tensor([0, 6, 0]), torch.tensor([[0, 10], [5, 5], [2, 9]])
    grads = []
    for sparse in (False, True):
        model = make(sparse=sparse)
        scores, penalty_B = model.score_and_penalty(users_B, items_BN)
        (scores.sin().sum() + penalty_B.sum()).backward()
        grads.append({name: p.grad for name, p in model.named_parameters()})
    rows = {"user_UD": [0, 6], "item_ID": [0, 2, 5, 9, 10], "bias_I": [0, 2, 5, 9, 10]}
    dense, named = grads
    for name, grad in named.items():
        assert grad.is_sparse
        assert_close(grad.to_dense(), dense[name])
        assert grad.coalesce().indices()[0].tolist() == rows[name]


def test_a_bias_is_added_to_the_cosine_and_is_its_whole_penalty():
    plain, biased = cosine(), biased_cosine()
    users_B, items_BN = torch.tensor([2, 4]), torch.tensor([[1, 3, 9], [8, 8, 0]])
    s_BN, norm_B = plain.score_and_penalty(users_B, items_BN)
    s2_BN, norm2_B = biased.score_and_penalty(users_B, items_BN)
    b_BN = items_BN / 10
    assert_close(s2_BN, s_BN + b_BN)
    assert_close(norm_B, torch.zeros(2))
    assert_close(norm2_B, b_BN[:, 0] ** 2 + (b_BN[:, 1:] ** 2).mean(dim=1))


def test_directions_have_length_one_and_return_to_it():
    model = cosine(sparse=True)
    for table_RD in (model.user_UD, model.item_ID):
        assert_close(table_RD.norm(dim=1), torch.ones(len(table_RD)))
    with torch.no_grad():
        model.user_UD *= 3
        model.item_ID *= 3
    model.project(torch.tensor([2, 4]), torch.tensor([[1, 3], [8, 8]]))
    length_U, length_I = model.user_UD.norm(dim=1), model.item_ID.norm(dim=1)
    assert_close(length_U, torch.tensor([3.0, 3, 1, 3, 1, 3, 3]))
    assert_close(length_I, torch.tensor([3.0, 1, 3, 1, 3, 3, 3, 3, 1, 3, 3]))


def test_cosines_are_bounded_and_do_not_feel_the_length_of_a_vector():
    model = cosine()
    s_UI = model.score_all(torch.arange(7))
    assert s_UI.abs().max() <= 1 / 0.2 + 1e-5
    with torch.no_grad():
        model.user_UD *= 7.0
        model.item_ID *= torch.arange(1, 12)[:, None]
    assert_close(model.score_all(torch.arange(7)), s_UI)
    with pytest.raises(UsageError, match="tau must be a positive number, got 0"):
        cosine(tau=0)
