"""The generator by expectation maximisation: Q(. | c) as near to the softmax as it gets.

Minimises Σ_c KL(P(.|c) ‖ Q(.|c)) with P(i | c) ∝ exp(s_c(i)/T), one step for X, then one for Y:

    x_ck ← x_ck Σ_i P(i|c) y_ik / Q(i|c)          normalised over k
    y_ik ← y_ik Σ_c P(i|c) x_ck / Q(i|c)          normalised over i

A step with exact sums cannot raise the KL; here they are estimated by sampling, see
``sampled_sums.py``. There is no λ and nothing to calibrate. Floors keep every weight bounded:

    x_c ← (1 - δ) x_c + δ/K,   y_k ← (1 - ε) y_k + ε/M

Before the first epoch scores say nothing yet, but the positives do: with P(i|c) = 1/|I_c| on the
positives the same steps, with exact sums, fit latent classes (Hofmann 1999). From there
the generator has only to follow; from random tables it lags behind for many epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdgar.arguments import at_least
from sdgar.contracts import Score
from sdgar.errors import UsageError
from sdgar.maths.sparse import SparseMatrix
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.sampled_sums import GeneratorSettings, SampledSums

if TYPE_CHECKING:
    from sdgar.data.history import History
    from sdgar.parts import Ingredients

_AT_ONCE = 1 << 23
"""The most numbers of a table that take a step at once."""
_PRIOR_X, _PRIOR_Y = 0.05, 0.01
"""The prior counts: positives of every context for every state, and of every state for every
item."""


@dataclass(frozen=True, kw_only=True)
class EMSettings(GeneratorSettings):
    """The settings of a generator that follows by expectation maximisation."""

    samples: int = 32
    """How many draws there are for each context and each item in a step of EM."""
    floor_x: float = 1e-3
    """The share of every x_c, the states of a context, that is spread over all states."""
    floor_y: float = 0.1
    """The share of every y_k, the items of a state, that is spread over all items."""
    pretrain: int = 15
    """How many steps of EM learn from the positives, before the generator follows the scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationMaximization(SampledSums):
    """The update that moves the generator towards the softmax of the scores."""

    settings: EMSettings
    """The floors δ of X and ε of Y, and how often positives are learned; P/Q is at most M/ε."""
    positives: History | None = None
    """The training positives that the generator learns before the first epoch; None leaves it at
    random."""

    def __post_init__(self) -> None:
        """Raise if a value is out of its range."""
        SampledSums.__post_init__(self)
        at_least("sampler__pretrain", self.settings.pretrain, 0)
        for name in ("floor_x", "floor_y"):
            floor = getattr(self.settings, name)
            if not 0 < floor < 1:
                raise UsageError(f"{name} must lie between 0 and 1, got {floor!r}.")

    def __call__(self, generator: Decomposable, score: Score, *, seed: int, epoch: int) -> None:
        """Take one step for X and its tables, then one for Y; in epoch 1, learn the positives."""
        if epoch == 1 and self.positives is not None and self.settings.pretrain > 0:
            self._learn_positives(generator, self.positives)
        else:
            SampledSums.__call__(self, generator, score, seed=seed, epoch=epoch)

    def new_x(self, x_UK: Tensor, log_b_UK: Tensor) -> Tensor:
        """x_ck ← x_ck b_ck, normalised over k, with the floor."""
        return step(x_UK, log_b_UK, self.settings.floor_x, dim=1)

    def new_y(self, y_IK: Tensor, log_d_IK: Tensor) -> Tensor:
        """y_ik ← y_ik d_ki, normalised over i, with the floor."""
        return step(y_IK, log_d_IK, self.settings.floor_y, dim=0)

    def _learn_positives(self, generator: Decomposable, positives: History) -> None:
        """Climb Σ_c Σ_{i ∈ I_c} log Q(i|c): x ← x ⊙ (S Y) and y ← y ⊙ (S'X), S_ci = 1/Q(i|c).

        What stands on the right counts positives by state; a prior is added to the counts, as
        contexts with few positives would be too sure of their states.
        """
        x_UK, y_IK = generator.x_UK, generator.y_IK
        items_of = SparseMatrix.of(
            positives.indptr_U1, positives.items_E, len(y_IK), device=x_UK.device
        )
        users_of, order_E = items_of.transposed(), items_of.column_E.argsort(stable=True)
        for _ in range(self.settings.pretrain):
            s_E = items_of.dots(x_UK, y_IK).reciprocal()
            count_UK = (replace(items_of, weight_E=s_E) @ y_IK).mul_(x_UK).add_(_PRIOR_X)
            count_IK = (replace(users_of, weight_E=s_E[order_E]) @ x_UK).mul_(y_IK).add_(_PRIOR_Y)
            del y_IK  # tables of all items are large: there are no more of them than needed
            x_UK, count_KI = _shares(count_UK), count_IK.T.contiguous()
            del count_IK
            y_IK = _shares(count_KI).T.contiguous()
            del count_KI
        generator.set_x(self._floored(x_UK))
        floor = self.settings.floor_y
        generator.set_y((1 - floor) * y_IK + floor / len(y_IK))

    def states_of(self, positives: History, y_IK: Tensor) -> Tensor:
        """Return x_UK of contexts that Y has not met: the same steps for X, with Y as it is."""
        items_of = SparseMatrix.of(
            positives.indptr_U1, positives.items_E, len(y_IK), device=y_IK.device
        )
        n_states = y_IK.shape[1]
        x_UK = y_IK.new_full((items_of.n_rows, n_states), 1 / n_states)
        for _ in range(self.settings.pretrain):
            s_E = items_of.dots(x_UK, y_IK).reciprocal()
            x_UK = _shares((replace(items_of, weight_E=s_E) @ y_IK).mul_(x_UK).add_(_PRIOR_X))
        return self._floored(x_UK)

    def _floored(self, x_UK: Tensor) -> Tensor:
        floor = self.settings.floor_x
        return (1 - floor) * x_UK + floor / x_UK.shape[1]

    @property
    def over_q(self) -> bool:
        """True, as the sums are of P/Q."""
        return True

    def value(self, s: Tensor) -> Tensor:
        """f = s: P is the softmax of the score itself."""
        return s

    def log_h(self, f: Tensor, mu: Tensor) -> Tensor:
        """log 1, as it is P itself that is fitted."""
        return torch.zeros_like(f)


def step(before: Tensor, log_factor: Tensor, floor: float, *, dim: int) -> Tensor:
    """Return before · factor, normalised along ``dim``, with a share ``floor`` spread evenly.

    A line without a finite factor stays as it was. Some lines are computed at a time, as tables of
    all items are large.
    """
    moved = torch.empty_like(before)
    lines = [table.transpose(dim, -1) for table in (before, log_factor, moved)]
    size = max(1, _AT_ONCE // max(1, before.shape[dim]))
    parts = [table.split(size) for table in lines]  # type: ignore[no-untyped-call]
    for before_RN, log_factor_RN, moved_RN in zip(*parts, strict=True):
        log_raised_RN = (before_RN.log() + log_factor_RN).contiguous()
        usable_R1 = torch.isfinite(log_raised_RN.amax(dim=-1, keepdim=True))
        # Only along the last axis torch adds up in one order for any number of threads.
        raised_RN = torch.where(usable_R1, log_raised_RN, 0.0).softmax(dim=-1)
        floored_RN = (1 - floor) * raised_RN + floor / raised_RN.shape[-1]
        moved_RN.copy_(torch.where(usable_R1, floored_RN, before_RN))
    return moved


def _shares(weight_RN: Tensor) -> Tensor:
    """Divide each row by its sum, in place."""
    return weight_RN.div_(weight_RN.sum(dim=1, keepdim=True))


def em_generator(given: Ingredients, settings: EMSettings) -> Decomposable:
    """Return a generator that follows the discriminator by expectation maximisation."""
    update = ExpectationMaximization(settings=settings, positives=given.data.history)
    return Decomposable.of(given, settings.states, update)
