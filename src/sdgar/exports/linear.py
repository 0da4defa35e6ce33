"""The scores of a model in the form that other programs compute: vectors, biases and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.errors import UsageError
from sdgar.maths.rows import Rows
from sdgar.models.model import Model, WeightTerm

Vectors = NDArray[np.float32]
"""An array of vectors or of biases."""


@dataclass(frozen=True, slots=True)
class Linear:
    """s_ci = u_c · v_i + b_i + Σ_{j ∈ I_c} w_ji for the items i that a context c does not have."""

    user_UD: Vectors
    """The vectors u of contexts."""
    item_ID: Vectors
    """The vectors v of items."""
    bias_I: Vectors
    """The biases b of items."""
    weight_II: Any
    """The weights w as a sparse matrix of SciPy, row j for having item j; None without any. The
    weight of the item-item weights in a sum is multiplied in."""
    has_vectors: bool
    """Whether two contexts with the same history can have different scores."""
    only_supported: bool
    """Whether an item is left out of lists if no item of the history has a weight for it."""
    lost: tuple[str, ...]
    """Sentences on what the model can do and these numbers alone cannot."""

    @classmethod
    def of(cls, model: Model, n_users: int) -> Linear:
        """Return the terms of a model as one of each kind; raise if its scores have none."""
        terms = model.terms()
        if terms is None:
            raise UsageError(
                f"a model that has {model.holds} cannot be exported: its scores are no inner "
                "products of vectors and no sums of weights between items. Serve it with sdgar "
                "serve, or write its lists with sdgar recommend RUN --all -o lists.parquet.",
                code="cannot_export",
            )
        weights = [_matrix(term, model.n_items) for term in terms.weights]
        scales = [np.float32(term.weight) for term in terms.vectors]
        pairs = list(zip(scales, terms.vectors, strict=True))
        no_users, no_items = (np.zeros((n, 0), np.float32) for n in (n_users, model.n_items))
        biases = [scale * term.bias_I for scale, term in pairs]
        return cls(
            user_UD=np.hstack((no_users, *(scale * term.users() for scale, term in pairs))),
            item_ID=np.hstack((no_items, *(term.item_ID for term in terms.vectors))),
            bias_I=sum(biases, np.zeros(model.n_items, np.float32)),
            weight_II=sum(weights[1:], weights[0]) if weights else None,
            has_vectors=bool(terms.vectors),
            only_supported=terms.only_supported,
            lost=terms.missing,
        )

    def without_weights(self) -> Linear:
        """Return the vectors and biases alone."""
        return replace(self, weight_II=None, only_supported=False)

    def with_biases(self) -> tuple[Vectors, Vectors]:
        """Return u and v with one more number each, 1 and b: s_ci = (u_c, 1) · (v_i, b_i)."""
        one_U1 = np.ones((len(self.user_UD), 1), np.float32)
        return np.hstack((self.user_UD, one_U1)), np.hstack((self.item_ID, self.bias_I[:, None]))


def _matrix(term: WeightTerm, n_items: int) -> Any:
    """Return W of one term, times its weight, without its zeros."""
    from scipy.sparse import csr_array

    w = term.weight_II
    if isinstance(w, Rows):
        arrays = w.weights(), w.column_E.astype(np.int64), w.start_R1
        found = csr_array(arrays, shape=(n_items, n_items))
    else:
        found = csr_array(w)
    return found * np.float32(term.weight) if term.weight != 1 else found
