"""Vectors after a few sweeps of least squares, with item-item weights: a model in seconds."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from sdgar.arguments import at_least, not_negative
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import cosine, temperature_of
from sdgar.machine.memory import require_memory
from sdgar.maths.rng import check_seed
from sdgar.models.fold_in import FoldInRule, OnSphere
from sdgar.models.model import Model
from sdgar.models.sum import weighted_sum
from sdgar.parts import Ingredients
from sdgar.systems.defaults import FEW_ROWS, Choice, ItemMemory, Range, neighbours_of
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import Solver

_MOST_NEIGHBOURS = 100
"""A system of equations of so many unknowns for each item is still solved in seconds."""


@estimator
class Quick(Solver):
    """What SD-Softmax starts from, and item-item weights: much of its accuracy in less time.

        s_ci = cos(u_c, v_i) / τ + b_i + γ Σ_{j ∈ I_c} w_ji

    The directions u and v are those after a few sweeps of iALS, the biases b are the logarithms of
    popularity, and the weights w between items are solved for as in local-ease. Nothing is
    trained in epochs, and γ is fixed.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.Quick(dim=2).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="quick",
        uses_weights=False,
        presets={"fast": ("quick", {})},
        computed_by="sweeps of least squares and item-item weights",
        searched={
            "item_memory": Choice((8.0, 16.0, 32.0, 64.0)),
            "tau": Range(0.07, 0.5),
            "item_memory__l2": Range(2.0, 200.0),
        },
        rules=dict.fromkeys(("tau", "item_memory__neighbours"), FEW_ROWS),
    )

    dim: int = 64
    """The number of coordinates D of the vector of each user and each item."""
    sweeps: int = 6
    """The number of sweeps of iALS that find the directions."""
    tau: float | None = None
    """The temperature τ that cosines are divided by. Without a value it is 0.12 from 250,000
    training rows on, and higher for fewer."""
    item_memory: ItemMemory = ItemMemory(weight=32.0, neighbours=None)
    """The item-item weights that are added to the scores; there are as many neighbours as an item
    has training rows, from 50 to 100."""
    seed: int = 0
    """The seed that fixes the vectors of items that the sweeps start from."""

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return what follows from the number of rows, unless it is given."""
        neighbours = neighbours_of(data, _MOST_NEIGHBOURS)
        return self._left_to_rules(
            {"tau": temperature_of(data), "item_memory__neighbours": neighbours}
        )

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return the rule that finds new users on the sphere, as for SD-Softmax."""
        tau = temperature_of(data) if self.tau is None else self.tau
        return OnSphere.after(data.history, data.n_items, tau=tau, rho=1.0)

    def _solve(self, data: Interactions, *, device: torch.device) -> Model:
        """Sweep, then solve for the item-item weights."""
        from sdgar.training.item_memory import ItemMemorySolver

        dim, seed = at_least("dim", self.dim, 1), check_seed(self.seed)
        require_memory(self._spec.name, 4 * 4 * (data.n_users + data.n_items) * dim, device)
        given = Ingredients(data, seed, device, dim, row_wise=True)
        made = cosine(given, tau=self.tau, sweeps=self.sweeps)
        vectors = made.learned().copied().model()
        how = self._settled(data).item_memory
        weight = not_negative("item_memory", how.weight)
        memory = ItemMemorySolver.for_vectors(data, weight, neighbours=how.neighbours, l2=how.l2)
        return weighted_sum(vectors, memory.solve(data, device) if weight else None, weight)
