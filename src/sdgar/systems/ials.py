"""The system iALS (Hu et al. 2008), regularised by frequency (Rendle et al. 2021)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from sdgar.arguments import at_least, not_negative
from sdgar.data.interactions import Interactions
from sdgar.machine.memory import require_memory
from sdgar.maths.least_squares import HalfSweep
from sdgar.maths.rng import Stream, check_seed, normal
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.factors import Factors
from sdgar.models.fold_in import FoldInRule, LeastSquares
from sdgar.systems.defaults import Choice, Range
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import Solver

_INIT_SCALE = 0.1


@estimator
class IALS(Solver):
    """Alternating least squares on all pairs: exact solutions for one side, then for the other.

        Σ_{(c,i) ∈ S} w_ci (1 - u_c · v_i)² + α Σ_c Σ_i (u_c · v_i)²
            + λ Σ_c (w_c + α M)^ν ‖u_c‖² + λ Σ_i (w_i + α N)^ν ‖v_i‖²

    w_c and w_i are sums over the rows of a context and of an item. Without weights w_ci = 1, so
    that w_c = |I_c|; weights that the data has are divided by their mean, as for all systems.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.IALS(dim=2).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="ials",
        computed_by="alternating least squares",
        searched={
            "alpha": Range(0.001, 1.0),
            "l2": Range(0.0005, 0.5),
            "power": Choice((0.0, 0.5, 1.0)),
            "sweeps": Choice((8, 16)),
        },
    )

    dim: int = 32
    """The number of coordinates D of the vector of each user and each item."""
    alpha: float = 0.01
    """The weight α with which the score of every pair is drawn towards 0."""
    l2: float = 0.01
    """The weight λ of the squared vectors."""
    power: float = 1.0
    """The power ν by which the penalty of a vector grows with how often the vector is in the sum; 0
    holds all vectors alike."""
    sweeps: int = 16
    """How often the vectors of contexts and then the vectors of items are solved for."""
    seed: int = 0
    """The seed that fixes the vectors of items that training starts from."""

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return the rule by which the vector of a new user is solved for, as in half a sweep."""
        return LeastSquares(self.alpha, self.l2, self.power)

    def _solve(self, data: Interactions, *, device: torch.device) -> Factors:
        """Start from random vectors v ~ N(0, 0.1²/D), then sweep."""
        dim = at_least("dim", self.dim, 1)
        tables = 2 * 4 * (data.n_users + data.n_items) * dim
        require_memory(self._spec.name, tables + 4 * dim * dim, device)
        start = normal(check_seed(self.seed), Stream.INIT_ITEM, data.n_items * dim)
        item_ID = torch.from_numpy(start).reshape(data.n_items, dim).to(device)
        item_ID *= _INIT_SCALE / dim**0.5
        weight_E = data.weight_E
        items_of = SparseMatrix.of(
            data.indptr_U1,
            data.items_E,
            data.n_items,
            None if weight_E is None else weight_E / weight_E.mean(),
            device=device,
        )
        users_of = items_of.transposed()
        half = HalfSweep(
            not_negative("alpha", self.alpha),
            not_negative("l2", self.l2),
            not_negative("power", self.power),
        )
        for _ in range(at_least("sweeps", self.sweeps, 1)):
            user_UD = half(items_of, item_ID)
            item_ID = half(users_of, user_UD)
        bias_I = np.zeros(data.n_items, np.float32)
        return Factors(user_UD.cpu().numpy(), item_ID.cpu().numpy(), bias_I)
