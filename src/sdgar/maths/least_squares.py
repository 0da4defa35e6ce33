"""Solve for the rows of one side by least squares, given the other side: half an iALS sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, arange, cholesky_solve
from torch.linalg import cholesky_ex, eigh
from torch.nn.functional import pad

from sdgar.errors import NumericalError, exhausted
from sdgar.machine import cores
from sdgar.machine.threads import run_parts
from sdgar.maths.sparse import SparseMatrix

# Numbers in the largest array of a block of rows.
_BLOCK_ON_CPU, _BLOCK_ON_GPU = 1 << 20, 1 << 26
_GRAM_ROWS = 256
"""The rows of a block of which the products of all columns are added up at once."""
_NARROW = 128
"""The most columns of blocks of which a product is too small for several threads."""
_TINY = 1e-30


@dataclass(frozen=True, slots=True)
class HalfSweep:
    """The best rows u of one side for given rows v of the other side.

        u_r = (Σ_{c ∈ r} w_rc v_c v_c' + α V'V + λ (w_r + α C)^ν I)^-1  Σ_{c ∈ r} w_rc v_c

    In the basis where α V'V is diagonal, and with a_c = √w_rc v_c as the rows of A, this is

        u_r = (A'A + diag(d))^-1 A' √w = diag(d)^-1 A' (A diag(d)^-1 A' + I)^-1 √w

    the first with D equations and the second with as many as the row has entries: whichever are
    fewer are solved.
    """

    alpha: float
    """The weight α of all pairs, also of those without an entry."""
    l2: float
    """The strength λ of the regularisation."""
    power: float
    """The power ν by which regularisation grows with the weight of a row."""

    def __call__(self, known: SparseMatrix, v_CD: Tensor) -> Tensor:
        """Return u_RD for the rows of ``known``, whose columns are the rows of v."""
        value_D, basis_DD = _diagonal(self.alpha * _gram(v_CD))
        padded_CD = pad(v_CD @ basis_DD, (0, 0, 0, 1))
        u_RD = v_CD.new_empty(known.n_rows, v_CD.shape[1])
        for rows_B in _blocks(known.length_R, v_CD.shape[1]):
            u_RD[rows_B] = self._solve(known.rows(rows_B), padded_CD, value_D.clamp(min=0))
        back_RD: Tensor = u_RD @ basis_DD.T
        return back_RD

    def improve(
        self,
        u_RD: Tensor,
        known: SparseMatrix,
        v_CD: Tensor,
        *,
        steps: int = 3,
    ) -> Tensor:
        """Return rows nearer to the solution than u_r, by conjugate gradients (Takács et al. 2011).

        A step costs O(D) an entry and O(D²) a row, where the solution costs D times as much.
        """
        norm_R = self.l2 * (known.weight_R + self.alpha * known.n_columns) ** self.power
        gram_DD = self.alpha * _gram(v_CD)
        if _has_kernels(u_RD):
            return _by_rows(u_RD, known, v_CD, norm_R, gram_DD, steps)
        norm_R1 = norm_R[:, None]

        def left(p_RD: Tensor) -> Tensor:
            return known.pull(p_RD, v_CD).addmm_(p_RD, gram_DD).addcmul_(norm_R1, p_RD)

        rest_RD = known @ v_CD - left(u_RD)
        way_RD, size_R1 = rest_RD, rest_RD.square().sum(dim=1, keepdim=True)
        for _ in range(steps):
            left_RD = left(way_RD)
            # A row that has arrived has no way left to go: 0 / tiny is 0.
            length_R1 = size_R1 / (way_RD * left_RD).sum(dim=1, keepdim=True).clamp(min=_TINY)
            u_RD = torch.addcmul(u_RD, length_R1, way_RD)
            rest_RD = torch.addcmul(rest_RD, length_R1, left_RD, value=-1)
            before_R1, size_R1 = size_R1, rest_RD.square().sum(dim=1, keepdim=True)
            way_RD = torch.addcmul(rest_RD, size_R1 / before_R1.clamp(min=_TINY), way_RD)
        return u_RD

    def _solve(self, known: SparseMatrix, padded_CD: Tensor, value_D: Tensor) -> Tensor:
        """Solve one system of equations a row; short rows are padded with v's last row, 0."""
        row_E = known.row_E
        place_E = arange(len(row_E), device=known.device) - known.start_R1[row_E]
        shape = (known.n_rows, int(known.length_R.max()))
        column_BL = row_E.new_full(shape, known.n_columns)
        column_BL[row_E, place_E] = known.column_E
        root_BL = padded_CD.new_zeros(shape)
        root_BL[row_E, place_E] = 1.0 if known.weight_E is None else known.weight_E.sqrt()
        a_BLD = padded_CD[column_BL] * root_BL[:, :, None]
        weight_B = root_BL.square().sum(dim=1)
        norm_B = self.l2 * (weight_B + self.alpha * known.n_columns) ** self.power
        d_BD = value_D + norm_B[:, None]
        if shape[1] < len(value_D) and bool((d_BD > 0).all()):
            over_BLD = a_BLD / d_BD[:, None]
            y_BL = self._solution(over_BLD @ a_BLD.mT, norm_B.new_ones(shape), root_BL)
            return (over_BLD.mT @ y_BL[:, :, None])[:, :, 0]
        right_BD = (a_BLD.mT @ root_BL[:, :, None])[:, :, 0]
        return self._solution(a_BLD.mT @ a_BLD, d_BD, right_BD)

    def _solution(self, left_BNN: Tensor, diagonal_BN: Tensor, right_BN: Tensor) -> Tensor:
        """(left + diag) x = right, solved for x."""
        left_BNN.diagonal(dim1=1, dim2=2).add_(diagonal_BN)
        factor_BNN, failed_B = cholesky_ex(left_BNN)
        if failed_B.any():
            raise NumericalError(
                f"the equations of iALS have no solution with l2={self.l2:g} and "
                f"alpha={self.alpha:g}. Use a larger l2, such as 0.01.",
                code="singular",
            )
        return cholesky_solve(right_BN[:, :, None], factor_BNN)[:, :, 0]


def _has_kernels(u_RD: Tensor) -> bool:
    """Return whether kernels are compiled for the device and the numbers of a table."""
    return u_RD.device.type == "cpu" and u_RD.dtype == torch.float32


def _by_rows(
    u_RD: Tensor,
    known: SparseMatrix,
    v_CD: Tensor,
    norm_R: Tensor,
    gram_DD: Tensor,
    steps: int,
) -> Tensor:
    """Improve each row by one thread, in all steps before the next row."""
    from sdgar.kernels.numba.least_squares import improve

    u_RD = u_RD.clone(memory_format=torch.contiguous_format)
    dim = u_RD.shape[1]
    tensors = known.start_R1, known.column_E, known.weights(), norm_R, v_CD, gram_DD
    arrays = [t.contiguous().numpy() for t in tensors]

    def part(first: int, last: int) -> None:
        scratch_3D = np.empty((3, dim), np.float32)
        given = np.int64(steps), np.float32(_TINY), u_RD.numpy(), scratch_3D
        improve(first, last, *arrays, *given)

    numbers = (1 + steps) * dim * (len(known.column_E) + dim * known.n_rows)
    run_parts(part, known.n_rows, numbers)
    return u_RD


def _diagonal(gram_DD: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of a symmetric matrix, and the basis in which it is diagonal."""
    try:
        value_D, basis_DD = eigh(gram_DD)
    except RuntimeError as error:
        if exhausted(error):
            raise
        raise NumericalError(
            f"least squares cannot be solved: products of vectors reach {gram_DD.abs().max():.3g}. "
            "The model has diverged or its file is damaged: train again, or restore it.",
            code="least_squares",
        ) from error
    return value_D, basis_DD


def _gram(v_CD: Tensor) -> Tensor:
    """V'V, summed by blocks of rows: a long sum is cut into as many parts as there are threads."""
    dim = v_CD.shape[1]
    gram_DD = v_CD.new_zeros(dim, dim)
    with cores.torch_threads(1 if dim <= _NARROW else None):
        for v_BD in v_CD.split(_GRAM_ROWS):  # type: ignore[no-untyped-call]
            gram_DD.addmm_(v_BD.T, v_BD)
    return gram_DD


def _blocks(length_R: Tensor, dim: int) -> Iterator[Tensor]:
    """Yield blocks of rows of similar lengths, the longest first, as many as fit in a block."""
    most = _BLOCK_ON_CPU if length_R.device.type == "cpu" else _BLOCK_ON_GPU
    length_R, order_R = length_R.sort(descending=True, stable=True)
    lengths = length_R.tolist()
    start = 0
    while start < len(lengths):
        stop = start + max(1, most // (dim * max(lengths[start], 1)))
        yield order_R[start:stop]
        start = stop
