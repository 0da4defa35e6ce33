"""What every discriminator owes: its three ways of scoring agree."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import UsageError

DISCRIMINATORS = {"matrix factorization": MatrixFactorization}


@pytest.fixture(params=sorted(DISCRIMINATORS))
def model(request):
    made = DISCRIMINATORS[request.param](7, 11, 5, seed=3, init_scale=3.0)
    with torch.no_grad():
        made.bias_I += torch.arange(11) / 10
    return made


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


def test_the_same_seed_starts_the_same_and_another_does_not():
    first, same, other = (MatrixFactorization(5, 6, 4, seed=s).user_UD for s in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_an_embedding_without_dimensions_is_refused():
    with pytest.raises(UsageError, match="dim must be at least 1, got 0"):
        MatrixFactorization(5, 6, 0, seed=1)


def test_a_sparse_gradient_is_the_dense_one_and_names_the_rows_of_the_batch():
    users_B, items_BN = torch.tensor([0, 6, 0]), torch.tensor([[0, 10], [5, 5], [2, 9]])
    grads = []
    for sparse in (False, True):
        model = MatrixFactorization(7, 11, 5, seed=3, init_scale=3.0, sparse=sparse)
        scores, penalty_B = model.score_and_penalty(users_B, items_BN)
        (scores.sin().sum() + penalty_B.sum()).backward()
        grads.append([p.grad for p in model.parameters()])
    rows = ([0, 6], [0, 2, 5, 9, 10], [0, 2, 5, 9, 10])
    for dense, sparse, touched in zip(*grads, rows, strict=True):
        assert sparse.is_sparse
        assert_close(sparse.to_dense(), dense)
        assert sparse.coalesce().indices()[0].tolist() == touched
