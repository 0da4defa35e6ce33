"""Systems that are computed from all rows at once: there are no epochs, so none is chosen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sdgar.data.interactions import Interactions
from sdgar.models.model import Model
from sdgar.recommend.recommender import Recommender
from sdgar.systems.base import Estimator, estimator
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.trained import OnPhase, Phase, computed

if TYPE_CHECKING:
    from typing import Self


@estimator
class Computed(Estimator):
    """A model without epochs, which takes all rows that it may learn from at once."""

    def _compute(
        self, train: Interactions, *, verbose: bool | None
    ) -> tuple[Model, dict[str, Any]]:
        """Compute the model, and what is saved about how it came to be."""
        raise NotImplementedError

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        refit: bool = False,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Compute the model from the interactions.

        ``valid`` plays no part unless ``refit=True`` lets the model learn from it too.
        ``on_epoch`` and ``checkpoints`` are there for systems that have epochs.
        """
        self._require_sound(train, valid)
        if refit and valid is not None:
            train = train.merge(valid)
        start = time.perf_counter()
        model, about = self._compute(train, verbose=verbose)
        seconds = time.perf_counter() - start
        self.__dict__["_trained"] = computed(model, self.computed_by, seconds, len(train))
        self._keep(model, train, about)
        self._tell_done(seconds, verbose)
        return self

    def fit_as_the_paper(
        self,
        train: Interactions,
        test: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Compute the model from ``train``; there is no epoch to choose on the test rows."""
        return self.fit(train, verbose=verbose)

    def fit_further(
        self,
        rows: Interactions,
        before: Recommender,
        *,
        phase: Phase = "final",
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Compute the model anew from all rows: an earlier one would save nothing."""
        return (self.fit_all if phase == "all" else self.fit)(rows, verbose=verbose)

    def fit_all(
        self,
        everything: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Compute the model from all rows; ``trained_`` still tells of the measured one."""
        before = self.trained_
        self.fit(everything, verbose=verbose)
        self.__dict__["_trained"] = before
        return self
