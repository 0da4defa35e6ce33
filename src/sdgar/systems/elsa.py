"""The system ELSA: a scalable linear shallow autoencoder (Vančura et al. 2022)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.arguments import at_least, not_negative
from sdgar.data.interactions import Interactions
from sdgar.machine.memory import require_memory
from sdgar.maths.optimizers import lean
from sdgar.maths.rng import Permutation, Stream, check_seed, normal
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.item_weights import ItemVectors
from sdgar.systems.defaults import Choice, Range
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import ItemItem

_TABLES = 7
"""How many tables of the size of A are held at once: itself, its directions, gradients, moments."""


@estimator
class ELSA(ItemItem):
    """Predict every item of a user from the others, by vectors of items of length one.

        min_A Σ_c ‖ x_c / ‖x_c‖ - s_c / ‖s_c‖ ‖²,   s_c = x_c (A A' - I),   ‖a_i‖ = 1

    It is like EASE with weights of rank D, so that time and memory are linear in the number of
    items. Adam with Nesterov's momentum takes a step for each batch of users. Weights of
    interactions are not used.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.ELSA(dim=2, epochs=50).fit(data)
    >>> model.recommend(history=["a"], k=1)["item"].to_list()  # someone new
    ['b']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="elsa",
        computed_by="gradient steps on normalised histories",
        searched={
            "learning_rate": Range(0.003, 0.3),
            "epochs": Choice((5, 10, 20, 40)),
        },
        uses_weights=False,
    )

    dim: int = 128
    """The number of coordinates D of the vector of each item."""
    learning_rate: float = 0.03
    """The learning rate of the steps."""
    epochs: int = 10
    """The number of passes over all users."""
    batch_size: int = 256
    """The number of users of a step."""
    seed: int = 0
    """The seed that fixes the vectors that training starts from and the order of users."""

    def _solve(self, data: Interactions, *, device: torch.device) -> ItemVectors:
        """Start from random vectors, then take the steps of all epochs."""
        dim, seed = at_least("dim", self.dim, 1), check_seed(self.seed)
        rate = not_negative("learning_rate", self.learning_rate)
        at_once = at_least("batch_size", self.batch_size, 1)
        require_memory(self._spec.name, 4 * _TABLES * data.n_items * dim, device)
        start = torch.from_numpy(normal(seed, Stream.INIT_ITEM, data.n_items * dim))
        free_ID = (start / dim**0.5).reshape(data.n_items, dim).to(device).requires_grad_()
        history = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=device)
        some_U = history.length_R.nonzero()[:, 0]
        optimizer = lean(torch.optim.NAdam)([free_ID], lr=rate)
        for epoch in range(1, at_least("epochs", self.epochs, 1) + 1):
            order = Permutation.of(len(some_U), seed=seed, stream=Stream.SHUFFLE, epoch=epoch)
            turn_U = some_U[torch.from_numpy(order(np.arange(len(some_U)))).to(device)]
            for users_B in turn_U.split(at_once):  # type: ignore[no-untyped-call]
                optimizer.zero_grad()
                loss_B = losses(history.rows(users_B), normalize(free_ID))
                loss_B.mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return ItemVectors(data.history, normalize(free_ID.detach()).cpu().numpy())


def losses(history: SparseMatrix, item_ID: Tensor) -> Tensor:
    """‖ x / ‖x‖ - s / ‖s‖ ‖² = 2 - 2 cos(x, s) of each user, for s = x (A A' - I).

    With z = x A and |x| items, x · s = ‖z‖² - |x| and ‖s‖² = z A'A z' - 2 ‖z‖² + |x|, so that no
    row of all items is ever made.
    """
    z_BD, count_B = history @ item_ID, history.length_R.to(item_ID.dtype)
    square_B = z_BD.square().sum(dim=1)
    norm_B = ((z_BD @ (item_ID.T @ item_ID)) * z_BD).sum(dim=1) - 2 * square_B + count_B
    smallest = torch.finfo(item_ID.dtype).eps * count_B
    return 2 - 2 * (square_B - count_B) / (count_B * norm_B.maximum(smallest)).sqrt()
