"""The base class of systems whose discriminator is matrix factorization."""

from __future__ import annotations

from typing import Any, ClassVar

from sdgar.contracts import Discriminator
from sdgar.data.interactions import Interactions
from sdgar.parts import discriminators
from sdgar.parts.register import Ingredients
from sdgar.parts.rules import ROWS, by_rows
from sdgar.systems.base import estimator
from sdgar.systems.learner import Learner
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.spaces import STEPS


@estimator
class Factorized(Learner):
    """A system that scores by g(c, i) = u_c · v_i + b_i."""

    _spec: ClassVar[SystemSpec] = SystemSpec(searched=STEPS, l2_scale=0.04, rules={"l2": ROWS})

    l2: float | None = None
    """The weight λ of the squared norm of the rows that a batch touches. Without a value it follows
    from the size of the data: a constant of the system over the square root of the training rows
    there are for each user and item."""

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return λ by its rule, unless it is given."""
        return {"l2": by_rows(self._spec.l2_scale, data)} if self.l2 is None else {}

    def _make_discriminator(self, given: Ingredients) -> Discriminator:
        """Return inner products of vectors, and a bias for each item."""
        return discriminators.factorization(given)
