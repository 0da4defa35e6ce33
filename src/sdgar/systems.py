"""The named systems: each a set of hyper-parameters and the composition they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from sdgar.contracts import System
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import UsageError
from sdgar.objectives import PairwiseLogistic
from sdgar.optimizers import Adam
from sdgar.samplers.static import Uniform


class Recipe(Protocol):
    """Hyper-parameters that compose into a system once the sizes are known."""

    system_name: ClassVar[str]

    def compose(self, n_users: int, n_items: int, *, seed: int) -> System:
        """Make the parts."""
        ...


@dataclass(kw_only=True, eq=False)
class BPR:
    """Bayesian personalised ranking (Rendle et al. 2009): one uniform negative a positive.

    Minimises softplus(-(g(c, i) - g(c, j))) over positives i and unknown items j.
    """

    system_name: ClassVar[str] = "bpr"

    dim: int = 32
    """Embedding size D."""
    learning_rate: float = 4e-3
    """Rate of Adam."""
    l2: float = 0.01
    """Weight λ of the squared norm of the rows a batch touches."""
    n_negatives: int = 1
    """Negatives drawn for each positive; the loss is their mean."""
    batch_size: int = 4096
    """Positives a step."""

    def compose(self, n_users: int, n_items: int, *, seed: int) -> System:
        """Uniform proposals, pairwise logistic loss, matrix factorization."""
        return System(
            name=self.system_name,
            discriminator=MatrixFactorization(n_users, n_items, self.dim, seed=seed),
            sampler=Uniform(),
            objective=PairwiseLogistic(),
            optimizer=Adam(self.learning_rate),
            n_negatives=at_least("n_negatives", self.n_negatives, 1),
            batch_size=at_least("batch_size", self.batch_size, 1),
            l2=not_negative("l2", self.l2),
        )


def at_least(name: str, value: Any, least: int) -> int:
    """Return ``value`` if it is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return value


def not_negative(name: str, value: Any) -> float:
    """Return ``value`` if it is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e30:
        raise UsageError(f"{name} must be a number of at least 0, got {value!r}.")
    return float(value)
