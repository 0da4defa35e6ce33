"""Vectors in lists by the nearest of some centres, to search in a few of the lists.

Inner products become distances on a sphere by one more number for each item (Bachrach et al. 2014):

    x_i = (v_i, b_i, √(m² - |v_i|² - b_i²)) / m,   q_c = (u_c, 1, 0),
    m x_i · q_c = u_c · v_i + b_i,   with m² the largest |v_i|² + b_i²

The numbers of x are kept in 16 bits each, so that the lists take half of the memory of the vectors,
and the order of what a search gives is rough. Searches may run in several threads at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import NumericalError, ResourceError
from sdgar.machine import cores

_ITEMS_A_CENTRE = 64
"""How many items for each centre the centres are found from."""
_ROUNDS = 10
"""How often the centres are moved."""
_EIGHT = 8
"""The numbers that faiss compares at once."""


class InvertedFile:
    """The vectors and biases of items in lists by their nearest centres."""

    def __init__(
        self, item_ID: NDArray[np.float32], bias_I: NDArray[np.float32], *, seed: int
    ) -> None:
        self._faiss = faiss = _faiss()
        n_items = len(item_ID)
        self.n_lists = max(1, min(1 << round(np.log2(2 * np.sqrt(n_items))), n_items // 4))
        """The number of lists."""
        x_IE = _on_sphere(item_ID, bias_I)
        self._wide = x_IE.shape[1]
        self._centres = faiss.IndexFlatIP(self._wide)
        self._lists = faiss.IndexIVFScalarQuantizer(
            self._centres, self._wide, self.n_lists, faiss.ScalarQuantizer.QT_fp16,
            faiss.METRIC_INNER_PRODUCT,
        )  # fmt: skip
        faiss.omp_set_num_threads(cores.threads())
        how = self._lists.cp
        how.seed, how.niter, how.spherical = seed, _ROUNDS, True
        how.max_points_per_centroid, how.min_points_per_centroid = _ITEMS_A_CENTRE, 1
        self._lists.train(x_IE)
        self._lists.add(x_IE)

    def search(
        self,
        u_BD: NDArray[np.float32],
        n: int,
        looked_into: int,
        blocked_I: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.int64]:
        """Return about the n items with the largest u · v + b for each u, in no exact order.

        A search looks into so many lists, and finds no item that is blocked. There is -1 behind
        the last item that is found.
        """
        q_BE = np.zeros((len(u_BD), self._wide), np.float32)
        q_BE[:, : u_BD.shape[1]] = u_BD
        q_BE[:, u_BD.shape[1]] = 1.0
        options: dict[str, Any] = {"nprobe": looked_into}
        if blocked_I is not None:
            allowed = np.packbits(~blocked_I, bitorder="little")
            options["sel"] = self._faiss.IDSelectorBitmap(allowed)
        self._faiss.omp_set_num_threads(cores.threads())  # a setting of each thread
        how = self._faiss.SearchParametersIVF(**options)
        found_BN: NDArray[np.int64] = self._lists.search(q_BE, n, params=how)[1]
        return found_BN


def _on_sphere(item_ID: NDArray[np.float32], bias_I: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return x_i, all of length 1, with zeros up to a width that suits faiss."""
    n_items, dim = item_ID.shape
    square_I = np.einsum("id,id->i", item_ID, item_ID) + bias_I**2
    if not np.isfinite(square_I).all():
        at = int(np.flatnonzero(~np.isfinite(square_I))[0])
        raise NumericalError(
            f"the vector or the bias of item index {at} is not finite, so nothing can be searched. "
            "The model has diverged or its file is damaged: train again with a smaller learning "
            "rate, or load an earlier checkpoint.",
            code="non_finite_scores",
        )
    x_IE = np.zeros((n_items, -(-(dim + 2) // _EIGHT) * _EIGHT), np.float32)
    x_IE[:, :dim] = item_ID
    x_IE[:, dim] = bias_I
    longest = square_I.max()
    x_IE[:, dim + 1] = np.sqrt(np.maximum(longest - square_I, 0.0))
    x_IE /= np.sqrt(longest) or 1.0
    return x_IE


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ResourceError(
            'an index needs faiss, which is not installed: pip install "sdgar[ann]". Without an '
            "index every item is looked at.",
            code="no_faiss",
        ) from error
    return faiss
