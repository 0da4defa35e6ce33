"""The system SD-Softmax: sampling-decomposable softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sdgar.arguments import one_of
from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import MANY, cosine, temperature_of
from sdgar.discriminators.factorization import factorization
from sdgar.models.fold_in import FoldInRule, OnSphere
from sdgar.objectives import SampledSoftmax
from sdgar.parts import Ingredients
from sdgar.samplers.em import EMSettings, em_generator
from sdgar.samplers.static import STATIC
from sdgar.settings import Group
from sdgar.systems.defaults import (
    FEW_ROWS,
    RATES,
    EarlyStopping,
    ItemMemory,
    Optimization,
    Range,
    Sampling,
    WarmStart,
    neighbours_of,
)
from sdgar.systems.learner import Learner
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec

if TYPE_CHECKING:
    from sdgar.training.records import FitOptions

_THOROUGH = {
    "dim": 256,
    "epochs": 16,
    "batch_size": 2048,
    "sampler__positives_per_visit": 2,
    "sampler__refit_every": 4,
    "sampler__samples": 64,
}
"""The settings of the preset ``thorough``."""
_BY_ROWS = {
    "epochs": (8, 12),
    "batch_size": (4096, 2048),
    "sampler__positives_per_visit": (4, 2),
}
"""The values of settings from 250,000 training rows on, and for fewer: where the rate falls, few
passes are enough."""


@dataclass(frozen=True, kw_only=True)
class EMSampling(EMSettings, Sampling):
    """How SD-Softmax draws negatives: from a generator that EM fits to the scores."""

    leading: ClassVar[str] = "kind"

    kind: str = "em"
    """The part that proposes negatives: em (the generator), or to compare with it uniform or
    popularity."""
    refit_every: int = 8
    """How many epochs lie between two steps of EM; the first step is before epoch 1."""
    positives_per_visit: int | None = None  # type: ignore[assignment]
    """How many positives of a user share one pool of n_negatives; 1 gives each its own. Without a
    value it is 4 from 250,000 training rows on, and 2 for fewer."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Group):
    """How SD-Softmax compares users and items."""

    leading: ClassVar[str] = "kind"

    kind: str = "cosine"
    """How a user and an item are compared: cosine (over τ), or dot (inner product and bias, whose
    size l2 holds)."""
    rho: float = 1.0
    """The temperature ρ of positives over that of negatives."""
    bias: bool = True
    """Whether an item has a bias in addition to its cosine; with inner products it always has."""
    sweeps: int = 6
    """How many sweeps of iALS give the directions that cosines start from; 0 starts at random."""


@estimator
class SDSoftmax(Learner):
    """Sampling-decomposable softmax: SD-GAR's idea with a softmax over all items as its objective.

        Σ_{(c,i) ∈ S} log Σ_j exp(s_cj) - s_ci,   s_ci = cos(u_c, v_i) / τ + b_i

    The sum over all items j is estimated by draws from a decomposable generator, which EM fits to
    the very softmax, with importance weights. After training, a memory of the history is added:
    s_ci + γ Σ_{j ∈ I_c} w_ji, whose weights between items are found by least squares.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDSoftmax(dim=2, sampler__states=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="sdsoftmax",
        presets={"fast": ("quick", {}), "thorough": ("sdsoftmax", _THOROUGH)},
        searched={
            "learning_rate": RATES["adagrad"],
            "tau": Range(0.07, 0.5),
            "l2": Range(0.02, 1.0),
        },
        rules=dict.fromkeys(
            (
                "tau",
                "epochs",
                "batch_size",
                "sampler__positives_per_visit",
                "item_memory__neighbours",
            ),
            FEW_ROWS,
        ),
    )

    dim: int = 128
    """The number of coordinates D of the vector of each user and each item."""
    epochs: int | None = None  # type: ignore[assignment]
    """The number of passes over the training positives, over which the learning rate falls. Without
    a value it is 8 from 250,000 training rows on, and 12 for fewer."""
    batch_size: int | None = None  # type: ignore[assignment]
    """How many training positives one step of the optimiser learns from. Without a value it is
    4,096 from 250,000 training rows on, and 2,048 for fewer."""
    early_stopping: EarlyStopping = EarlyStopping(every=2)
    """How the weight of the item memory is chosen on validation rows."""
    learning_rate: float = 0.15
    """The learning rate of the first epoch; both kinds of Adam want about 0.01."""
    optimizer: Optimization = Optimization(schedule="linear")
    n_negatives: int = 32
    """How many items are drawn for each visit of a user."""
    similarity: Comparison = Comparison()
    """How users and items are compared."""
    tau: float | None = None
    """The temperature τ that cosines are divided by; inner products are not. Without a value it is
    0.12 from 250,000 training rows on, and higher for fewer."""
    l2: float = 0.1
    """The weight λ of the squared biases that a batch touches, and of the vectors of inner
    products."""
    sampler: EMSampling = EMSampling()
    """How negatives are drawn."""
    item_memory: ItemMemory = ItemMemory(weight=None, neighbours=None)
    """The item-item weights that are added to the scores; there are as many neighbours as an item
    has training rows, from 50 to 200."""
    warm_start: WarmStart = WarmStart(epochs=3)

    def _make_discriminator(self, given: Ingredients) -> Discriminator:
        """Return cosines over τ, or inner products."""
        how = self.similarity
        if one_of("similarity", how.kind, ("cosine", "dot")) == "dot":
            return factorization(given)
        return cosine(given, tau=self.tau, bias=how.bias, sweeps=how.sweeps)

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the softmax over all items, whose sum is estimated from the negatives."""
        return SampledSoftmax(self.similarity.rho)

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the generator, or the sampler that it is compared with."""
        one_of("sampler", self.sampler.kind, ("em", *STATIC))
        if self.sampler.kind in STATIC:
            return STATIC[self.sampler.kind](given)
        return em_generator(given, self.sampler)

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return what follows from the number of rows, unless it is given or not used."""
        by_rule: dict[str, Any] = {
            name: many if len(data) >= MANY else few for name, (many, few) in _BY_ROWS.items()
        }
        by_rule["item_memory__neighbours"] = neighbours_of(data)
        if self.similarity.kind == "cosine":
            by_rule["tau"] = temperature_of(data)
        return self._left_to_rules(by_rule)

    def _loop(self) -> FitOptions:
        """Return the settings of the loop; epochs that a rule decides are the most there can be."""
        known = self if self.epochs is not None else self._changed(epochs=max(_BY_ROWS["epochs"]))
        return Learner._loop(known)

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return the rule that finds new users on the sphere; inner products have none."""
        if self.similarity.kind != "cosine":
            return None
        tau = temperature_of(data) if self.tau is None else self.tau
        return OnSphere.after(data.history, data.n_items, tau=tau, rho=self.similarity.rho)
