"""Sparse matrices as tensors, which enumerations compute with, and as the arrays of models."""

from __future__ import annotations

import numpy as np
import torch

from sdgar.data.history import History
from sdgar.maths.rows import Rows
from sdgar.maths.sparse import SparseMatrix


def rows_of(matrix: SparseMatrix) -> Rows:
    """Return a matrix as arrays."""
    weights = () if matrix.weight_E is None else (matrix.weight_E.numpy(),)
    return Rows(matrix.start_R1.numpy(), matrix.column_E.int().numpy(), *weights)


def history_of(matrix: SparseMatrix) -> History:
    """Return the columns of each row as a history."""
    return History(matrix.start_R1.numpy(), matrix.column_E.int().numpy())


def dense_of(matrix: SparseMatrix) -> torch.Tensor:
    """Return a matrix with all its zeros."""
    dense = torch.zeros(matrix.n_rows, matrix.n_columns)
    dense[matrix.row_E, matrix.column_E] = matrix.weights()
    return dense


def matrix_of(rows: Rows, n_columns: int | None = None) -> SparseMatrix:
    """Return arrays as a matrix, which is square without a number of columns."""
    return SparseMatrix(
        torch.from_numpy(rows.start_R1),
        torch.from_numpy(rows.column_E.astype(np.int64)),
        rows.n_rows if n_columns is None else n_columns,
        torch.from_numpy(rows.weights()),
    )
