"""The named systems: each a set of hyper-parameters and the composition they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from sdgar.arguments import at_least, not_negative, one_of
from sdgar.contracts import Discriminator, Objective, Recommending, Sampler, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.discriminators.metric import Metric
from sdgar.discriminators.start import start
from sdgar.errors import UsageError
from sdgar.maths.optimizers import SGD, Adam, LazyAdam, Optimizer, RowAdagrad
from sdgar.objectives import (
    Logistic,
    PairwiseLogistic,
    RankHingeByImpostors,
    RankHingeByTries,
    SampledSoftmax,
    WeightedLogistic,
)
from sdgar.samplers.adaptive import AdaptiveOrder
from sdgar.samplers.closed_form import ClosedForm
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.dislikes import KNOW_LOG_Q, WithDislikes
from sdgar.samplers.em import ExpectationMaximization
from sdgar.samplers.policy_gradient import PolicyGradient
from sdgar.samplers.sampled_sums import LEAST_TEMPERATURE, MOST_TEMPERATURE, within
from sdgar.samplers.score_aware import FirstViolation, Hardest
from sdgar.samplers.softmax import Softmax
from sdgar.samplers.static import Popularity, Uniform

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adagrad": RowAdagrad,
    "lazy-adam": LazyAdam,
    "adam": Adam,
    "sgd": SGD,
}


CPU = torch.device("cpu")
DISLIKES = 0.1
"""The share of negatives that is drawn from dislikes where these are asked for by name."""
ROWS = "the training rows there are for each user and item"
"""What ``by_rows`` looks at, in words."""
FEW_ROWS = "the number of training rows"
"""What ``temperature_of`` looks at, in words."""


class Recipe(Protocol):
    """Hyper-parameters that compose into a system once the data is known."""

    system_name: ClassVar[str]

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Make the parts, with ``device`` to compute on."""
        ...


@dataclass(kw_only=True, eq=False)
class Composition:
    """What the recipes share: the hyper-parameters of the model and of its steps."""

    system_name: ClassVar[str] = ""
    rules: ClassVar[Mapping[str, str]] = {}
    """What each setting follows from that can be left to a rule."""

    dim: int = 32
    """The number of coordinates D of the vector of each user and each item."""
    learning_rate: float = 0.1
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    optimizer: str = "adagrad"
    """How steps are taken: adagrad (one sum of squares a row), lazy-adam (which moves the rows
    that a batch touches), adam (which moves all rows) or sgd."""
    n_negatives: int = 1
    """How many negatives are drawn for each positive; the loss is the mean over them."""
    batch_size: int = 2048
    """How many training positives one step of the optimiser learns from."""
    positives_per_visit: int = 1
    """How many positives of a user share one pool of n_negatives; 1 gives each its own."""
    dislikes: float = 0.0
    """The share of negatives that is drawn from what the user dislikes, such as films that were
    rated low, instead of by the sampler; 0 draws none of them."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Make the parts."""
        raise NotImplementedError

    def decided(self, data: Interactions) -> dict[str, Any]:
        """The settings that were left to a rule, and what the rule makes of the data."""
        return {}

    def step(self) -> tuple[str, float]:
        """The name of the optimiser, and its rate."""
        return self.optimizer, self.learning_rate

    def least_bytes(self, data: Interactions) -> int:
        """Memory that training takes in any case: tables, their gradients' sums, and one batch.

        Tables have D numbers a context and item, and where there is a generator K more; a batch
        has an index, a score and a probability for each negative.
        """
        width = at_least("dim", self.dim, 1) + self._states()
        rows = min(at_least("batch_size", self.batch_size, 1), len(data))
        shared = at_least("positives_per_visit", self.positives_per_visit, 1)
        drawn = -(-rows // shared) * at_least("n_negatives", self.n_negatives, 1)
        return 2 * 4 * (data.n_users + data.n_items) * width + 16 * drawn

    def _states(self) -> int:
        """K of the generator, where there is one."""
        return 0

    def _penalty(self, data: Interactions) -> float:
        """λ of the discriminator's penalty."""
        raise NotImplementedError

    def _system(
        self,
        data: Interactions,
        discriminator: Discriminator,
        sampler: Sampler,
        objective: Objective,
        *,
        refit_every: int | None = None,
        recommends: Recommending | None = None,
    ) -> System:
        p = _share(self.dislikes)
        if p and recommends is not None:
            raise UsageError(
                f"{self.system_name} lets its generator recommend, which learns from its own draws "
                "and not from dislikes. Set dislikes to 0.",
                code="unused_dislikes",
            )
        if p:
            require_takes_dislikes(self.system_name, sampler, objective)
        return System(
            name=self.system_name,
            discriminator=discriminator,
            sampler=WithDislikes(sampler, data, p) if p and data.seen is not None else sampler,
            objective=objective,
            optimizer=make_optimizer(*self.step()),
            n_negatives=at_least("n_negatives", self.n_negatives, 1),
            batch_size=at_least("batch_size", self.batch_size, 1),
            positives_per_visit=at_least("positives_per_visit", self.positives_per_visit, 1),
            l2=self._penalty(data),
            refit_every=refit_every,
            seen_elsewhere=data.fields is not None and data.seen_by == "user",
            recommends=recommends,
        )


def _share(dislikes: Any) -> float:
    if isinstance(dislikes, bool) or not isinstance(dislikes, Real) or not 0 <= float(dislikes) < 1:
        raise UsageError(
            f"dislikes must be a share from 0 to below 1, got {dislikes!r}.", code="bad_setting"
        )
    return float(dislikes)


def require_takes_dislikes(system: str, sampler: Sampler, objective: Objective) -> None:
    """Refuse to mix dislikes into draws from which ranks are estimated, or whose Q is not known."""
    if isinstance(objective, RankHingeByTries | RankHingeByImpostors):
        raise UsageError(
            f"{system} estimates ranks from draws that are uniform, which draws of dislikes are "
            "not. Set dislikes to 0, or use another system.",
            code="unused_dislikes",
        )
    if getattr(objective, "needs_log_q", False) and not isinstance(sampler, KNOW_LOG_Q):
        raise UsageError(
            f"{system} weighs negatives by how likely they were proposed, which its sampler cannot "
            "say of a disliked item. Set dislikes to 0, or use sampler decomposable, uniform or "
            "popularity.",
            code="unused_dislikes",
        )


@dataclass(kw_only=True, eq=False)
class Factorized(Composition):
    """What the recipes share whose discriminator is matrix factorization."""

    l2_rule: ClassVar[float] = 0.04
    """What ``by_rows`` divides where l2 is not given."""
    rules: ClassVar[Mapping[str, str]] = {"l2": ROWS, "generator_l2": ROWS}

    l2: float | None = None
    """The weight λ of the squared norm of the rows that a batch touches. Without a value it follows
    from the size of the data: a constant of the system over the square root of the training rows
    there are for each user and item."""

    def decided(self, data: Interactions) -> dict[str, Any]:
        """λ by its rule, unless it is given."""
        return {"l2": by_rows(self.l2_rule, data)} if self.l2 is None else {}

    def _penalty(self, data: Interactions) -> float:
        return not_negative("l2", self.decided(data).get("l2", self.l2))

    def _factorization(self, data: Interactions, seed: int) -> MatrixFactorization:
        row_wise = make_optimizer(*self.step()).row_wise
        return MatrixFactorization(
            data.n_users, data.n_items, self.dim, seed=seed, sparse=row_wise, fields=data.fields
        )


@dataclass(kw_only=True, eq=False)
class BPR(Factorized):
    """Bayesian personalised ranking (Rendle et al. 2009): one uniform negative a positive.

    Minimises softplus(-(g(c, i) - g(c, j))) over positives i and unknown items j.
    """

    system_name: ClassVar[str] = "bpr"

    learning_rate: float = 0.2
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Uniform proposals, pairwise logistic loss, matrix factorization."""
        return self._system(data, self._factorization(data, seed), Uniform(), PairwiseLogistic())


@dataclass(kw_only=True, eq=False)
class AOBPR(Factorized):
    """BPR with adaptive oversampling (Rendle & Freudenthaler 2014): negatives from top ranks.

    Ranks are those of single factors, whose orders are sorted anew from time to time.
    """

    system_name: ClassVar[str] = "aobpr"
    l2_rule: ClassVar[float] = 0.09

    rank_scale: float = 0.05
    """The scale λ of the ranks r that are drawn, P(r) ∝ exp(-r/λ), as a share of the items; a small
    one draws hard negatives."""
    refit_every: int = 1
    """How many epochs pass before items are sorted by their factors again; they are sorted first
    before epoch 1."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Proposals by rank in a factor, pairwise logistic loss, matrix factorization."""
        discriminator = self._factorization(data, seed)
        sampler = AdaptiveOrder(discriminator, self.rank_scale)
        refit_every = at_least("refit_every", self.refit_every, 1)
        return self._system(
            data, discriminator, sampler, PairwiseLogistic(), refit_every=refit_every
        )


@dataclass(kw_only=True, eq=False)
class WARP(Factorized):
    """Weighted approximate-rank pairwise loss (Weston et al. 2010), as in LightFM.

    Uniform draws until g(c, j) > g(c, i) - margin; the fewer it took, the worse i must rank, and
    the more the hinge counts.
    """

    system_name: ClassVar[str] = "warp"
    l2_rule: ClassVar[float] = 3.3
    """Large, since a hinge counts up to log M times."""

    learning_rate: float = 0.2
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    margin: float = 1.0
    """By how much the score of a positive should exceed that of a negative."""
    max_tries: int = 30
    """The most draws for a positive; a positive without a violation teaches nothing."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """The first violation, rank-weighted hinge, matrix factorization."""
        for name in ("n_negatives", "positives_per_visit"):
            if getattr(self, name) != 1:
                raise UsageError(
                    f"warp searches one negative for each positive, so {name} must be 1, got "
                    f"{getattr(self, name)!r}."
                )
        margin = not_negative("margin", self.margin)
        sampler = FirstViolation(margin, at_least("max_tries", self.max_tries, 1))
        objective = RankHingeByTries(margin, data.n_items)
        return self._system(data, self._factorization(data, seed), sampler, objective)


@dataclass(kw_only=True, eq=False)
class CML(Composition):
    """Collaborative metric learning (Hsieh et al. 2017): points in a ball instead of factors.

    A positive should be nearer than the nearest of a few uniform negatives, by a margin; the more
    of them come nearer than that, the more it counts.
    """

    system_name: ClassVar[str] = "cml"

    learning_rate: float = 0.2
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    n_negatives: int = 20
    """How many negatives are drawn for each positive; the nearest of them is pushed away."""
    margin: float = 1.0
    """By how much a positive should be nearer than a negative, in squared distances, which are at
    most 4 in a unit ball."""
    covariance: float = 0.0
    """The weight λ of the covariances between axes, which keeps axes from saying the same."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Uniform proposals, hinge weighted by the share of impostors, points in a unit ball."""
        row_wise = make_optimizer(*self.step()).row_wise
        metric = Metric(data.n_users, data.n_items, self.dim, seed=seed, sparse=row_wise)
        objective = RankHingeByImpostors(not_negative("margin", self.margin), data.n_items)
        return self._system(data, metric, Uniform(), objective)

    def _penalty(self, data: Interactions) -> float:
        return not_negative("covariance", self.covariance)


@dataclass(kw_only=True, eq=False)
class DNS(Factorized):
    """Dynamic negative sampling (Zhang et al. 2013): BPR with the hardest of a few uniform draws.

    The negative j is the candidate with the highest current score g(c, j).
    """

    system_name: ClassVar[str] = "dns"
    l2_rule: ClassVar[float] = 0.12

    learning_rate: float = 0.2
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    candidates: int = 10
    """How many items are drawn uniformly for each negative; the one with the best score is kept."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """The hardest of uniform proposals, pairwise logistic loss, matrix factorization."""
        sampler = Hardest(at_least("candidates", self.candidates, 1))
        return self._system(data, self._factorization(data, seed), sampler, PairwiseLogistic())


@dataclass(kw_only=True, eq=False)
class IRGAN(Factorized):
    """The minimax game of IRGAN (Wang et al. 2017): a generator of items against a discriminator.

    The generator is a softmax over all items, O(N·M·D) an epoch; it learns by REINFORCE what the
    discriminator takes for positives, which in turn learns to tell its items from positives.
    """

    system_name: ClassVar[str] = "irgan"

    batch_size: int = 8192
    """How many training positives one step of the optimiser learns from."""
    side: str = "generator"
    """Which of the two recommends in the end: generator or discriminator."""
    temperature: float = 0.2
    """The temperature τ of the generator's proposals; the generator itself learns at τ = 1."""
    refit_every: int = 1
    """How many epochs of the discriminator lie between two updates of the generator."""
    pretrain: int = 120
    """How often the generator passes over the contexts to learn from positives, before epoch 1."""
    pretrain_rate: float = 0.01
    """The learning rate of Adam while the generator learns from positives, before epoch 1."""
    generator_rate: float = 0.0001
    """The learning rate of Adam in the updates of the generator."""
    generator_l2: float | None = None
    """The weight λ of the squared norms of the contexts and items that a step of the generator
    draws. Without a value it is 0.8 over the square root of the training rows there are for each
    user and item."""
    generator_batch: int = 1024
    """How many contexts one step of the generator learns from."""
    generator_samples: int = 64
    """How many items are drawn for each context to estimate the gradient of the generator."""
    positive_share: float = 0.2
    """The share of generator_samples that is drawn from the positives, with importance weights."""
    reward: str = "sigmoid"
    """What the generator is paid of the discriminator's score g: sigmoid (2σ(g) - 1, as in the
    authors' code) or softplus."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Proposals from the generator, logistic loss, matrix factorization."""
        one_of("side", self.side, ("discriminator", "generator"))
        sampler = self._generator(data, seed)
        return self._system(
            data,
            self._factorization(data, seed),
            sampler,
            Logistic(),
            refit_every=at_least("refit_every", self.refit_every, 1),
            recommends=sampler if self.side == "generator" else None,
        )

    def decided(self, data: Interactions) -> dict[str, Any]:
        """Both λ by their rules, unless they are given."""
        mine = {"generator_l2": by_rows(0.8, data)} if self.generator_l2 is None else {}
        return super().decided(data) | mine

    def _generator(self, data: Interactions, seed: int) -> Softmax:
        l2 = self.decided(data).get("generator_l2", self.generator_l2)
        update = PolicyGradient(
            learning_rate=self.generator_rate,
            l2=not_negative("generator_l2", l2),
            batch=at_least("generator_batch", self.generator_batch, 1),
            samples=at_least("generator_samples", self.generator_samples, 2),
            positive_share=self.positive_share,
            reward=one_of("reward", self.reward, ("sigmoid", "softplus")),
            pretrain_passes=at_least("pretrain", self.pretrain, 0),
            pretrain_rate=self.pretrain_rate,
        )
        temperature = checked_temperature(self.temperature)
        return Softmax(
            data.history, data.n_items, self.dim, seed=seed, temperature=temperature, update=update
        )


@dataclass(kw_only=True, eq=False)
class SA(Factorized):
    """Self-adversarial negative sampling (Sun et al. 2019): five uniform negatives, reweighted.

    Weights ∝ exp(f/T) of the negatives' losses f, through which no gradient passes: Eq. 4 with
    uniform proposals and held weights.
    """

    system_name: ClassVar[str] = "sa"
    l2_rule: ClassVar[float] = 0.07

    learning_rate: float = 0.2
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    n_negatives: int = 5
    """How many negatives are drawn for each positive."""
    temperature: float = 0.25
    """The temperature T of the weights of negatives, ∝ exp(f/T) of their losses f; it is 1/α of the
    original."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Uniform proposals, logistic loss with held softmax weights, matrix factorization."""
        objective = WeightedLogistic(checked_temperature(self.temperature), hold_weights=True)
        return self._system(data, self._factorization(data, seed), Uniform(), objective)


@dataclass(kw_only=True, eq=False)
class SDGAR(Factorized):
    """Sampling-decomposable generative adversarial recommender (Jin et al. 2020), Algorithm 1.

    A generator Q(i|c) = Σ_k x_ck y_ik proposes negatives in O(1) and follows the discriminator
    by closed-form updates; importance weights correct for what it cannot follow.
    """

    system_name: ClassVar[str] = "sdgar"
    l2_rule: ClassVar[float] = 0.07

    n_negatives: int = 5
    """How many negatives are drawn for each positive: |S_c|."""
    temperature: float = 0.5
    """The temperature T of the distribution that the generator follows, P(i|c) ∝ exp(f_c(i)/T)."""
    hold_weights: bool = False
    """Whether the gradient stops at the importance weights."""
    proposal: str = "decomposable"
    """Who proposes negatives: decomposable (the generator), or for ablations frozen (never
    updated), scrambled (updated, then dealt to other contexts), uniform or popularity."""
    states: int = 64
    """The number K of states of the generator."""
    refit_every: int = 5
    """How many epochs lie between two updates of the generator (l_g); the first update is before
    epoch 1."""
    lambda_x: float = 0.1
    """The weight of the entropy of x_c, the states of a context."""
    lambda_y: float = 1.0
    """The weight of the entropy of y_k, the items of a state."""
    generator_samples: int = 64
    """How many draws there are for each context and each item in an update of the generator: |S_c|
    and |S_i|."""
    target: str = "kl"
    """What the generator minimises: kl (the divergence from its target), or linear as in Eq. 7."""
    integrand: str = "loss"
    """Which function of the loss the generator follows: loss (h = f), or deviation (h = |f - μ|) as
    in Eq. 7."""
    calibration: str = "line"
    """The unit in which lambda_x and lambda_y are given: line (the largest b of each line),
    relative (the mean of these), or literal."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Proposals from the generator, importance-weighted logistic loss, factorization."""
        objective = WeightedLogistic(checked_temperature(self.temperature), self.hold_weights)
        return self._system(
            data,
            self._factorization(data, seed),
            self._sampler(data, seed),
            objective,
            refit_every=at_least("refit_every", self.refit_every, 1),
        )

    def _states(self) -> int:
        return 0 if self.proposal in STATIC else at_least("states", self.states, 1)

    def _sampler(self, data: Interactions, seed: int) -> Sampler:
        learned = ("decomposable", "frozen", "scrambled")
        one_of("proposal", self.proposal, (*learned, *STATIC))
        if self.proposal in STATIC:
            return STATIC[self.proposal](data)
        update = ClosedForm(
            temperature=self.temperature,
            lambda_x=self.lambda_x,
            lambda_y=self.lambda_y,
            samples=at_least("generator_samples", self.generator_samples, 1),
            target=one_of("target", self.target, ("kl", "linear")),
            integrand=one_of("integrand", self.integrand, ("loss", "deviation")),
            calibration=one_of("calibration", self.calibration, ("relative", "line", "literal")),
        )
        return Decomposable(
            data.n_users,
            data.n_items,
            at_least("states", self.states, 1),
            seed=seed,
            update=None if self.proposal == "frozen" else update,
            scramble=self.proposal == "scrambled",
        )


@dataclass(kw_only=True, eq=False)
class SDGARPrinted(SDGAR):
    """SD-GAR with Eq. 7 to 11 as printed: linear target, h = |f - μ|, λ taken literally.

    Its generator stays uniform to many digits (see ``samplers/closed_form.py``); it is here to
    show that.
    """

    system_name: ClassVar[str] = "sdgar-printed"

    target: str = "linear"
    integrand: str = "deviation"
    calibration: str = "literal"


@dataclass(kw_only=True, eq=False)
class SDSoftmax(Composition):
    """Sampling-decomposable softmax: SD-GAR's idea with a softmax over all items as its objective.

    The scores are cosines over a temperature τ, and a bias; the partition function is estimated by
    draws from a decomposable generator, which EM fits to the very softmax, and importance weights.
    """

    system_name: ClassVar[str] = "sdsoftmax"
    rules: ClassVar[Mapping[str, str]] = {"tau": FEW_ROWS}

    dim: int = 128
    """The number of coordinates D of the vector of each user and each item."""
    learning_rate: float = 0.05
    """The learning rate of the optimiser; both kinds of Adam want about 0.004."""
    n_negatives: int = 32
    """How many items are drawn for each visit of a user."""
    positives_per_visit: int = 2
    """How many positives of a user share one pool of n_negatives; 1 gives each its own."""
    similarity: str = "cosine"
    """How a user and an item are compared: cosine (over τ), or dot (inner product and bias, whose
    size l2 holds)."""
    tau: float | None = None
    """The temperature τ that cosines are divided by; inner products are not. Without a value it is
    0.12 from 250,000 training rows on, and higher for fewer."""
    rho: float = 1.0
    """The temperature of positives over that of negatives: ρ."""
    bias: bool = True
    """Whether an item has a bias beside its cosine; beside inner products there always is one."""
    l2: float = 0.1
    """The weight λ of the squared biases that a batch touches, and of the vectors of inner
    products."""
    proposal: str = "em"
    """Who proposes negatives: em (the generator), or to compare with it uniform or popularity."""
    states: int = 64
    """The number K of states of the generator."""
    refit_every: int = 2
    """How many epochs lie between two steps of EM; the first step is before epoch 1."""
    floor_x: float = 1e-3
    """The share of every x_c, the states of a context, that is spread over all states."""
    floor_y: float = 0.1
    """The share of every y_k, the items of a state, that is spread over all items."""
    generator_samples: int = 64
    """How many draws there are for each context and each item in a step of EM."""
    pretrain: int = 15
    """How many steps of EM learn from the positives, before the generator follows the scores."""
    sweeps: int = 3
    """How many sweeps of iALS give the directions that cosines start from; 0 starts at random."""

    def compose(self, data: Interactions, *, seed: int, device: torch.device = CPU) -> System:
        """Proposals from the generator, sampled softmax, cosines or inner products."""
        return self._system(
            data,
            self._discriminator(data, seed, device),
            self._sampler(data, seed),
            SampledSoftmax(self.rho),
            refit_every=at_least("refit_every", self.refit_every, 1),
        )

    def decided(self, data: Interactions) -> dict[str, Any]:
        """τ by its rule, unless it is given or not used."""
        by_rule = self.tau is None and self.similarity == "cosine"
        return {"tau": temperature_of(data)} if by_rule else {}

    def _penalty(self, data: Interactions) -> float:
        return not_negative("l2", self.l2)

    def _discriminator(self, data: Interactions, seed: int, device: torch.device) -> Discriminator:
        row_wise = make_optimizer(*self.step()).row_wise
        size = (data.n_users, data.n_items, self.dim)
        if one_of("similarity", self.similarity, ("cosine", "dot")) == "dot":
            return MatrixFactorization(*size, seed=seed, sparse=row_wise, fields=data.fields)
        tau = temperature_of(data) if self.tau is None else self.tau
        cosine = Cosine(
            *size, seed=seed, tau=tau, sparse=row_wise, bias=self.bias, fields=data.fields
        )
        start(cosine.to(device), data, sweeps=at_least("sweeps", self.sweeps, 0))
        return cosine

    def _states(self) -> int:
        return 0 if self.proposal in STATIC else at_least("states", self.states, 1)

    def _sampler(self, data: Interactions, seed: int) -> Sampler:
        one_of("proposal", self.proposal, ("em", *STATIC))
        if self.proposal in STATIC:
            return STATIC[self.proposal](data)
        update = ExpectationMaximization(
            temperature=1.0,
            samples=at_least("generator_samples", self.generator_samples, 1),
            floor_x=self.floor_x,
            floor_y=self.floor_y,
            positives=data.history,
            pretrain=at_least("pretrain", self.pretrain, 0),
        )
        states = at_least("states", self.states, 1)
        return Decomposable(data.n_users, data.n_items, states, seed=seed, update=update)


def _popularity(data: Interactions) -> Popularity:
    return Popularity(torch.from_numpy(np.bincount(data.items_E, minlength=data.n_items)))


STATIC: dict[str, Callable[[Interactions], Sampler]] = {
    "uniform": lambda data: Uniform(),
    "popularity": _popularity,
}
"""Proposals that learn nothing, to compare a generator with."""


def by_rows(scale: float, data: Interactions) -> float:
    """``scale`` / √(rows / (users + items)), in three digits: the more rows, the less λ is needed.

    The penalty of a vector is counted each time a row touches it, so the sum over an epoch grows
    with the rows as the loss does. But a vector that is known from many rows needs to be held back
    less than that; over seven data sets the best λ falls with the square root of their number.
    """
    return float(f"{scale / math.sqrt(len(data) / (data.n_users + data.n_items)):.3g}")


def temperature_of(data: Interactions) -> float:
    """τ = 0.12 max(1, 250,000 / rows)^⅕ up to ½, in three digits: few rows know directions badly.

    A low temperature makes the softmax sharp, which wants directions that are known well. On eight
    data sets of 2,000 to 800,000 rows the best τ falls from about 0.35 to 0.12 (docs/defaults.md).
    """
    return float(f"{min(0.5, 0.12 * max(1.0, 250_000 / len(data)) ** 0.2):.3g}")


def make_optimizer(name: str, learning_rate: float) -> Optimizer:
    """The optimiser of that name."""
    one_of("optimizer", name, tuple(OPTIMIZERS))
    return OPTIMIZERS[name](learning_rate)


def checked_temperature(value: float) -> float:
    """Return ``value`` if weights exp(f/T) can be computed with it."""
    return within("temperature", value, LEAST_TEMPERATURE, MOST_TEMPERATURE)
