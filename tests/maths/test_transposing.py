"""The columns of a sparse matrix are found a window at a time, in the order of its rows."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.maths.rows import InMemory, Rows, transposed
from sdgar.maths.sparse import SparseMatrix


@given(
    st.lists(st.lists(st.integers(-1, 6), max_size=5), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(1, 40)),
    st.booleans(),
)
def test_any_window_gives_the_transposed_matrix(columns, window, weighted):
    start_R1 = np.cumsum([0, *map(len, columns)])
    column_E = np.array([c for row in columns for c in row], np.int32)
    weight_E = np.arange(len(column_E), dtype=np.float32) if weighted else np.empty(0, np.float32)
    rows = Rows(start_R1, column_E, weight_E)
    found = transposed(rows, 7, InMemory(), "columns", window=window)

    # A negative column is no entry.
    there_E = column_E >= 0
    kept_R1 = np.concatenate(([0], np.cumsum(there_E)))[start_R1]
    kept_E = torch.from_numpy(weight_E[there_E]) if weighted else None
    kept = torch.from_numpy(kept_R1), torch.from_numpy(column_E[there_E]).long()
    wanted = SparseMatrix(*kept, 7, kept_E).transposed()
    assert found.start_R1.tolist() == wanted.start_R1.tolist()
    assert found.column_E.tolist() == wanted.column_E.tolist()
    assert found.weight_E.tolist() == (wanted.weights().tolist() if weighted else [])
