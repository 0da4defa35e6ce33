"""The records and protocols that the parts of this package share, with their shapes.

Axis letters end a name, so that a silent broadcast is visible:

    B rows of a batch      N negatives of a row     E interactions
    U contexts (users)     I items                  D embedding
    T held-out contexts    X new contexts           K length of a list, or states of the generator
    W weights              R rows of a table, or those drawn again
    U1 one more than U     B1 a second axis of size 1

A context is what the paper calls c: by default the user. ``users_B`` indexes contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import torch
from torch import Tensor

from sdgar.errors import UsageError
from sdgar.models.scorers import TensorScorer

if TYPE_CHECKING:
    from sdgar.maths.optimizers import Optimizer
    from sdgar.maths.rng import Draws
    from sdgar.models.factor_tensors import FactorTensors
    from sdgar.models.network import ModuleScores

    Learned: TypeAlias = FactorTensors | ModuleScores
    """A model in training: vectors, or a network that has none."""


@dataclass(frozen=True, slots=True)
class Negatives:
    """The negatives that a sampler proposes for each row."""

    items_BN: Tensor
    """The items that are proposed."""
    accepted_BN: Tensor
    """Whether each item is a negative; False if every try met a known positive: it has weight 0."""
    log_q_BN: Tensor | None = None
    """log Q(item | context) up to a constant of the row; None if the sampler cannot compute it."""
    tries_B: Tensor | None = None
    """How many draws each negative took, to estimate ranks; None if the sampler does not count."""

    def rows(self, part: slice | Tensor) -> Negatives:
        """Return the negatives of some rows, which may be repeated."""
        return Negatives(
            self.items_BN[part],
            self.accepted_BN[part],
            None if self.log_q_BN is None else self.log_q_BN[part],
            None if self.tries_B is None else self.tries_B[part],
        )


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a sampler's proposals after a refit: numbers, words, and what is wrong."""

    numbers: Mapping[str, float] = field(default_factory=dict)
    """The values by name, for logs; empty if the sampler measures nothing."""
    line: str = ""
    """The same values in a few words, for the line that is shown of an epoch."""
    complaint: str | None = None
    """The sentence that says what is wrong with the proposals, and which setting to change; None if
    nothing is wrong."""


class KnownPositives(Protocol):
    """The training positives, as sets of items by context."""

    def contains(self, users_BN: Tensor, items_BN: Tensor) -> Tensor:
        """Return True where the pair is a known positive."""
        ...

    def n_unknown(self, users_BN: Tensor) -> Tensor:
        """Return how many items are not known positives of the context."""
        ...

    def nth_unknown(self, users_BN: Tensor, r_BN: Tensor) -> Tensor:
        """Return the r-th item, from 0, that is not a known positive of the context."""
        ...


Score = Callable[[Tensor, Tensor], Tensor]
"""The function (users_B, items_BN) -> s_BN, at the current parameters, without a gradient."""


@dataclass(frozen=True, slots=True)
class Positives:
    """The positives of a batch, and what a sampler needs to propose negatives for them."""

    users_B: Tensor
    """The context of each row."""
    items_B: Tensor
    """The positive of each row."""
    score: Score
    """The current scores."""
    draws: Draws
    """The random numbers; a row uses only those with its address."""
    known: KnownPositives
    """The training positives, which are no negatives."""

    def rows(self, part: Tensor) -> Positives:
        """Return some of the rows, with their random numbers."""
        draws = self.draws.at(self.draws.rows[part])
        return replace(self, users_B=self.users_B[part], items_B=self.items_B[part], draws=draws)


class Sampler(Protocol):
    """A sampler proposes negatives; ``refit`` lets a learned one follow the discriminator.

    Besides ``uses_scores`` a sampler may state four more facts, by which a ``System`` checks that
    its parts go together: ``knows_log_q`` (whether its negatives carry log Q), ``counts_tries``
    (whether they carry the number of tries), ``most_negatives`` (how many it can give for one
    positive) and ``by_positive`` (whether they are searched for one positive, so that several
    cannot share them). What a sampler does not state is found in the first batch. Dislikes can be
    mixed in if it has ``log_q_of``, log Q of any items. ``redraws_positives`` states that this is
    of one draw, and that known positives are drawn again.
    """

    @property
    def uses_scores(self) -> bool:
        """Whether draws depend on the current scores; if not, many are made at once."""
        ...

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Return N negatives for each row."""
        ...

    def refit(self, score: Score, *, seed: int, epoch: int) -> Health:
        """Follow the discriminator, unless the sampler is static; return the proposals' health."""
        ...

    def to(self, device: torch.device) -> Self:
        """Move the tables to a device."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return everything that is needed to continue from here; empty for static samplers."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned."""
        ...


class Discriminator(TensorScorer, Protocol):
    """The model that learns to separate positives from proposals, and later recommends.

    A discriminator may have ``together_E``, a number for each training row that rows have in common
    which it computes in one pass: a batch of the eager engine then has all of these or none.
    """

    by_event: bool
    """Whether ``score_and_penalty`` receives training rows, each with its history, not contexts."""

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return the scores s_BN of N items for each row."""
        ...

    def frozen(self) -> Score:
        """Return the same function of scores, made quick for many calls at the same parameters."""
        ...

    def score_and_penalty(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return s_BN of the positive (first) and the negatives, and the penalty of each row."""
        ...

    def project(self, users_B: Tensor, items_BN: Tensor) -> None:
        """After a step, bring the rows it touched back into their bounds, if they have any."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the tensors that the optimiser moves."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters by name."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> object:
        """Restore the parameters by name."""
        ...

    def factors(self) -> FactorTensors:
        """Return the vectors and biases whose inner products are the scores, detached."""
        ...

    def learned(self) -> Learned:
        """Return the model that recommends, detached from training."""
        ...

    def to(self, device: torch.device) -> Self:
        """Move the parameters to a device."""
        ...


class Objective(Protocol):
    """An objective turns scores into one loss a row; it never reduces over rows.

    An objective may state that it ``needs_log_q`` or ``needs_tries`` of the negatives, or that it
    ``needs_uniform_negatives``, because it estimates ranks from them.
    """

    def __call__(self, pos_B: Tensor, neg_BN: Tensor, negatives: Negatives) -> Tensor:
        """Return loss_B from s(c, i⁺), s(c, j) and what the sampler reports of j."""
        ...

    def effective(self, neg_BN: Tensor, negatives: Negatives) -> Tensor | None:
        """Return how many equally weighted negatives the weights are worth; None without."""
        ...


class Recommending(Protocol):
    """A part that can recommend once training is over."""

    def learned(self) -> Learned:
        """Return the model, detached; it follows the parameters until it is copied."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system: the parts that score, propose and are minimised, and how training goes."""

    name: str
    """The name of the system, for messages."""
    discriminator: Discriminator
    """The part that scores."""
    sampler: Sampler
    """The part that proposes negatives."""
    objective: Objective
    """The loss that is minimised."""
    optimizer: Optimizer
    """The rule for steps."""
    n_negatives: int
    """How many negatives N are drawn for each positive, or for each visit."""
    batch_size: int
    """How many positives one step learns from."""
    l2: float
    """The weight λ: the penalty, for factorization the squared norms, is multiplied by λ / 2."""
    positives_per_visit: int = 1
    """How many positives P of a context share one pool of negatives; 1 gives each its own."""
    refit_every: int | None = None
    """How many epochs lie between two refits of the sampler; None for static samplers."""
    seen_elsewhere: bool = False
    """Whether negatives avoid what the user has in any context, and not only in this one."""
    recommends: Recommending | None = None
    """The part that recommends, in IRGAN perhaps the generator; None if it is the discriminator."""

    def __post_init__(self) -> None:
        """Raise if the parts do not go together."""
        if (why := misfit(self)) is not None:
            raise UsageError(why, code="parts_do_not_fit")

    def learned(self) -> Learned:
        """Return the model of the part that recommends."""
        return (self.recommends or self.discriminator).learned()

    @property
    def visits_per_step(self) -> int:
        """The number of visits that make up a batch, if each has P positives."""
        return max(1, self.batch_size // self.positives_per_visit)


def misfit(system: System) -> str | None:
    """Return why the parts of a system do not go together, and what to do; None if they do."""
    sampler, objective = system.sampler, system.objective
    proposes, loss = type(sampler).__name__, type(objective).__name__
    most = getattr(sampler, "most_negatives", None)
    if getattr(objective, "needs_log_q", False) and not getattr(sampler, "knows_log_q", True):
        return (
            f"the objective {loss} weighs negatives by how likely they were proposed, which the "
            f"sampler {proposes} cannot say. With this sampler use objective bpr or logistic; with "
            "this objective use sampler decomposable, uniform, popularity, or search with "
            "sampler__explore above 0."
        )
    if getattr(objective, "needs_tries", False) and not getattr(sampler, "counts_tries", True):
        return (
            f"the objective {loss} estimates ranks from the number of tries, which the sampler "
            f"{proposes} does not count. Use sampler first-violation, or objective cml, which "
            "estimates ranks from several negatives."
        )
    if most is not None and system.n_negatives > most:
        return (
            f"the sampler {proposes} gives no more than {most} of the {system.n_negatives} "
            f"negatives that each positive should have. Set n_negatives to {most}."
        )
    if getattr(sampler, "by_positive", False) and system.positives_per_visit > 1:
        return (
            f"the sampler {proposes} searches negatives for one positive at a time, so "
            f"{system.positives_per_visit} positives cannot share them. Set "
            "sampler__positives_per_visit to 1."
        )
    if sampler.uses_scores and getattr(system.discriminator, "by_event", False):
        return (
            f"the sampler {proposes} looks at the scores of users, and the discriminator scores "
            "what came before each row. Use sampler decomposable, uniform, popularity or search."
        )
    return None
