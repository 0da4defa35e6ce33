from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.maths import sparse
from sdgar.maths.sparse import SparseMatrix

from .sparse import dense_of

CPU = torch.device("cpu")


def random_matrix(rng: np.random.Generator, shape, *, weighted: bool) -> np.ndarray:
    filled = rng.random(shape) < rng.choice([0.05, 0.3, 0.9])
    return filled * (rng.normal(size=shape) if weighted else 1.0)


def sparse_of(dense: np.ndarray, *, weighted: bool) -> SparseMatrix:
    row, column = np.nonzero(dense)
    start = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=len(dense)))))
    weight = dense[row, column].astype(np.float32) if weighted else None
    return SparseMatrix.of(start, column, dense.shape[1], weight, device=CPU)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([1, 7, 1 << 20]))
def test_rows_transpose_and_products_are_those_of_the_dense_matrix(seed, weighted, other, at_once):
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(1, 12, 3)
    x, y = random_matrix(rng, (n, m), weighted=weighted), random_matrix(rng, (m, k), weighted=other)
    some = rng.integers(0, n, rng.integers(1, 20))
    left, right = sparse_of(x, weighted=weighted), sparse_of(y, weighted=other)

    np.testing.assert_allclose(dense_of(left.rows(torch.from_numpy(some))), x[some], rtol=1e-6)
    np.testing.assert_allclose(dense_of(left.transposed()), x.T, rtol=1e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "_TERMS_ON_CPU", at_once)
        found = left.rows(torch.from_numpy(some)) @ right
    np.testing.assert_allclose(found, x[some] @ y, atol=1e-5)
    np.testing.assert_allclose(left @ torch.from_numpy(y.astype(np.float32)), x @ y, atol=1e-5)


def test_the_transpose_of_the_transpose_is_the_matrix_itself():
    x = sparse_of(random_matrix(np.random.default_rng(0), (9, 5), weighted=True), weighted=True)
    again = x.transposed().transposed()
    assert torch.equal(again.start_R1, x.start_R1)
    assert torch.equal(again.column_E, x.column_E)
    assert torch.equal(again.weight_E, x.weight_E)


def test_a_product_without_a_single_term_is_zero():
    nothing = SparseMatrix.of(np.zeros(4, np.int64), np.zeros(0, np.int32), 2, device=CPU)
    assert torch.equal(nothing @ nothing.transposed(), torch.zeros(3, 3))
    assert torch.equal(nothing @ torch.ones(2, 5), torch.zeros(3, 5))


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 1 << 20]), st.booleans())
def test_dots_and_sums_of_weights_are_those_of_the_dense_matrix(seed, at_once, compiled):
    rng = np.random.default_rng(seed)
    n, m, d = rng.integers(1, 12, 3)
    dense = random_matrix(rng, (n, m), weighted=True)
    known = sparse_of(dense, weighted=True)
    dtype = np.float32 if compiled else np.float64
    u_RD, v_CD = (torch.from_numpy(rng.normal(size=(r, d)).astype(dtype)) for r in (n, m))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "_DOTS", at_once)
        found_E = known.dots(u_RD, v_CD)
    wanted_E = (u_RD.double() @ v_CD.double().T)[known.row_E, known.column_E]
    np.testing.assert_allclose(found_E, wanted_E, atol=1e-5)
    np.testing.assert_allclose(known.weight_R, dense.sum(axis=1), atol=1e-5)


def test_a_pull_is_two_products_in_one():
    rng = np.random.default_rng(3)
    dense = (rng.random((7, 9)) < 0.4) * rng.random((7, 9))
    known = sparse_of(dense, weighted=True)
    p_RD, v_CD = (torch.from_numpy(rng.normal(size=(n, 5))) for n in (7, 9))
    wanted = torch.from_numpy(dense) * (p_RD @ v_CD.T) @ v_CD
    found = known.pull(p_RD.float(), v_CD.float())
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
