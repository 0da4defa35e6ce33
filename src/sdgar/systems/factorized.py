"""The base class of systems whose discriminator is matrix factorization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sdgar.contracts import Discriminator
from sdgar.data.interactions import Interactions
from sdgar.parts import discriminators
from sdgar.parts.register import Ingredients
from sdgar.parts.rules import ROWS, by_rows
from sdgar.systems.base import estimator
from sdgar.systems.learner import Learner
from sdgar.systems.spaces import STEPS, Space


@estimator
class Factorized(Learner):
    """A system that scores by g(c, i) = u_c · v_i + b_i."""

    searched: ClassVar[Space] = STEPS
    l2_rule: ClassVar[float] = 0.04
    """The constant that ``by_rows`` divides to get l2, where l2 is not given."""
    rules: ClassVar[Mapping[str, str]] = {"l2": ROWS}

    l2: float | None = None
    """The weight λ of the squared norm of the rows that a batch touches. Without a value it follows
    from the size of the data: a constant of the system over the square root of the training rows
    there are for each user and item."""

    def decided(self, data: Interactions) -> dict[str, Any]:
        """Return λ by its rule, unless it is given."""
        return {"l2": by_rows(self.l2_rule, data)} if self.l2 is None else {}

    def make_discriminator(self, given: Ingredients) -> Discriminator:
        """Return inner products of vectors, and a bias for each item."""
        return discriminators.factorization(given)
