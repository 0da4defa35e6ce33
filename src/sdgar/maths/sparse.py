"""A sparse matrix in CSR form with torch alone, on any device, and its dense products.

torch's sparse tensors are a beta: every use warns, and products on the CPU
need a library that not every build has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from sdgar.machine.threads import run_parts

# Terms x_rj y_jc of a sparse product that are held at once, some 50 bytes each.
_TERMS_ON_CPU, _TERMS_ON_GPU = 1 << 20, 1 << 24
_DOTS = 1 << 20
"""The most entries whose two vectors are in memory at once."""


@dataclass(frozen=True, slots=True)
class SparseMatrix:
    """x_rc = weight_E[e] where c = column_E[e], for e = start_R1[r] … start_R1[r + 1] - 1."""

    start_R1: Tensor
    """The entries of row r are ``start_R1[r]`` to ``start_R1[r + 1] - 1``."""
    column_E: Tensor
    """The column of each entry; of 32 bits where a large matrix lies in a file, else of 64. Rows
    that are taken out of it have 64."""
    n_columns: int
    """The number of columns."""
    weight_E: Tensor | None = None
    """The weight of each entry; None if all are 1."""

    @classmethod
    def of(
        cls,
        start_R1: NDArray[np.int64],
        column_E: NDArray[np.integer[Any]],
        n_columns: int,
        weight_E: NDArray[np.float32] | None = None,
        *,
        device: torch.device,
    ) -> Self:
        """Build a matrix from NumPy arrays."""
        return cls(
            torch.tensor(start_R1, device=device),
            torch.tensor(column_E, device=device).long(),
            n_columns,
            None if weight_E is None else torch.tensor(weight_E, device=device),
        )

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.start_R1) - 1

    @property
    def device(self) -> torch.device:
        """The device of the matrix."""
        return self.column_E.device

    @property
    def length_R(self) -> Tensor:
        """The number of entries of each row."""
        return self.start_R1.diff()

    @property
    def row_E(self) -> Tensor:
        """The row of each entry."""
        return torch.repeat_interleave(self.length_R, output_size=len(self.column_E))

    @property
    def weight_R(self) -> Tensor:
        """The sum of each row's weights."""
        if self.weight_E is None:
            return self.length_R.float()
        return (self @ torch.ones(self.n_columns, 1, device=self.device))[:, 0]

    def weights(self) -> Tensor:
        """Return the weight of each entry, also if all are 1."""
        if self.weight_E is not None:
            return self.weight_E
        return torch.ones(len(self.column_E), device=self.device)

    def rows(self, rows_B: Tensor) -> SparseMatrix:
        """Return some rows, in this order; a row may be named several times."""
        first_B = self.start_R1[rows_B]
        length_B = self.start_R1[rows_B + 1] - first_B
        start_B1 = pad(length_B.cumsum(0), (1, 0))
        shift_B = first_B - start_B1[:-1]
        place_E = torch.repeat_interleave(shift_B, length_B)
        place_E += torch.arange(len(place_E), device=self.device)
        # index_select, because [] takes several times as long here.
        column_E = self.column_E.index_select(0, place_E).long()
        weight_E = None if self.weight_E is None else self.weight_E.index_select(0, place_E)
        return SparseMatrix(start_B1, column_E, self.n_columns, weight_E)

    def transposed(self) -> SparseMatrix:
        """Return the transposed matrix; entries of a new row are in the order of the old rows."""
        order_E = self.column_E.argsort(stable=True)
        length_C = torch.bincount(self.column_E, minlength=self.n_columns)
        weight_E = None if self.weight_E is None else self.weight_E[order_E]
        start_C1 = pad(length_C.cumsum(0), (1, 0))
        return SparseMatrix(start_C1, self.row_E[order_E], self.n_rows, weight_E)

    def __matmul__(self, other: SparseMatrix | Tensor) -> Tensor:
        """Σ_j x_rj y_jc as a dense matrix; terms are added in the order of the entries.

        On a GPU the order of a sparse product is not fixed, so its last digit may differ.
        """
        if isinstance(other, Tensor):
            return embedding_bag(
                self.column_E,
                other,
                self.start_R1,
                mode="sum",
                include_last_offset=True,
                per_sample_weights=self.weight_E,
            )
        out_RC = torch.zeros(self.n_rows, other.n_columns, device=self.device)
        if self.device.type == "cpu":
            from sdgar.kernels.numba import sparse

            arrays = (
                t.contiguous().numpy()
                for m in (self, other)
                for t in (m.start_R1, m.column_E, m.weights())
            )
            start_C1, met_E = other.start_R1, self.column_E
            numbers = int((start_C1[met_E + 1] - start_C1[met_E]).sum())
            rest = np.float32(1), out_RC.numpy()
            run_parts(sparse.add_product, self.n_rows, numbers, *arrays, *rest)
            return out_RC
        start_E = self.row_E * other.n_columns
        for part in _parts(other.length_R[self.column_E]):
            met = other.rows(self.column_E[part])
            place_N = torch.repeat_interleave(start_E[part], met.length_R) + met.column_E
            factor_E = self.weights()[part]
            term_N = met.weights() * torch.repeat_interleave(factor_E, met.length_R)
            out_RC.view(-1).scatter_add_(0, place_N, term_N)
        return out_RC

    def dots(self, u_RD: Tensor, v_CD: Tensor) -> Tensor:
        """Return u_r · v_c of each entry, whatever its weight."""
        if u_RD.device.type == "cpu" and u_RD.dtype == torch.float32:
            from sdgar.kernels.numba.mixtures import mix

            return mix(u_RD, self.row_E, v_CD, self.column_E[:, None])[:, 0]
        parts = zip(self.row_E.split(_DOTS), self.column_E.split(_DOTS), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat([(u_RD[row_P] * v_CD[column_P]).sum(dim=1) for row_P, column_P in parts])

    def pull(self, p_RD: Tensor, v_CD: Tensor) -> Tensor:
        """Return Σ_c x_rc (p_r · v_c) v_c of each row."""
        return replace(self, weight_E=self.weights() * self.dots(p_RD, v_CD)) @ v_CD


def _parts(terms_E: Tensor) -> Iterator[slice]:
    """Yield runs of entries that together have about as many terms as may be in memory."""
    at_once = _TERMS_ON_CPU if terms_E.device.type == "cpu" else _TERMS_ON_GPU
    group_E = terms_E.cumsum(0) // at_once
    start = 0
    for n in torch.unique_consecutive(group_E, return_counts=True)[1].tolist():
        yield slice(start, start + n)
        start += n
