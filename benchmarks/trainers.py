"""Our engine and the peers' models as things to be trained an epoch at a time, all at D = 32."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from common import THREADS
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.factors import Factors
from sdgar.systems.base import Estimator
from sdgar.systems.recipe import recipe_of

DIM = 32


class Trainer(Protocol):
    """Something that can be trained a little more, and looked at."""

    def train(self) -> None:
        """One more epoch."""
        ...

    def factors(self) -> Factors:
        """The model as it is now."""
        ...


class Ours:
    """The fused engine, as ``fit`` drives it."""

    def __init__(self, recipe: Estimator, data: Interactions, *, seed: int = 0) -> None:
        self._system = recipe_of(recipe).compose(data, seed=seed)
        device = torch.device("cpu")
        self._engine = FusedCpuEngine(self._system, data, seed=seed, device=device)
        self._epoch = 0

    def train(self) -> None:
        """Refit the sampler where it is due, then one epoch."""
        every = self._system.refit_every
        if every is not None and self._epoch % every == 0:
            self._engine.refit(self._epoch + 1)
        self._epoch += 1
        self._engine.run_epoch(self._epoch)

    def factors(self) -> Factors:
        """The parameters."""
        return self._system.discriminator.factors()


class ImplicitBPR:
    """BayesianPersonalizedRanking; a further fit continues from the factors it has."""

    def __init__(self, matrix: csr_matrix, *, seed: int = 0, **settings: float) -> None:
        from implicit.cpu.bpr import BayesianPersonalizedRanking

        self._matrix = matrix
        # A generator, not a number: every fit would draw the same triplets again from a number.
        self._model = BayesianPersonalizedRanking(
            factors=DIM,
            iterations=1,
            num_threads=THREADS,
            random_state=np.random.default_rng(seed),
            **settings,
        )

    def train(self) -> None:
        """One iteration: as many triplets as there are positives."""
        self._model.fit(self._matrix, show_progress=False)

    def factors(self) -> Factors:
        """The bias is a column of the item factors, against a column of ones."""
        item_ID = torch.from_numpy(self._model.item_factors)
        return FactorTensors(
            torch.from_numpy(self._model.user_factors), item_ID, torch.zeros(len(item_ID))
        ).model()


class LightfmWARP:
    """LightFM with WARP and its own Adagrad."""

    def __init__(
        self,
        matrix: csr_matrix,
        *,
        learning_rate: float,
        alpha: float,
        seed: int = 0,
        dim: int = DIM,
    ) -> None:
        from lightfm import LightFM

        self._matrix = matrix.tocoo()
        self._model = LightFM(
            no_components=dim,
            loss="warp",
            learning_rate=learning_rate,
            item_alpha=alpha,
            user_alpha=alpha,
            random_state=seed,
        )

    def train(self) -> None:
        """One epoch."""
        self._model.fit_partial(self._matrix, epochs=1, num_threads=THREADS)

    def factors(self) -> Factors:
        """Biases of users shift all items of a user alike and are left out."""
        bias_I, item_ID = self._model.get_item_representations()
        _, user_UD = self._model.get_user_representations()
        return FactorTensors(
            *(torch.from_numpy(_float32(a)) for a in (user_UD, item_ID, bias_I))
        ).model()


def _float32(array: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(array, np.float32)


def grid(axes: dict[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
