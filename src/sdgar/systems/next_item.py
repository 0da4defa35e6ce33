"""The system NextItem: a sequence network, and a memory of transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from sdgar.arguments import at_least, below_one, not_negative
from sdgar.contracts import Discriminator, Objective, Sampler
from sdgar.data.splits import leave_last_out
from sdgar.discriminators.adapter import Adapter
from sdgar.discriminators.sequence import Sequence
from sdgar.maths.rng import Stream, torch_seed
from sdgar.models.fold_in import ByNetwork, FoldInRule
from sdgar.objectives import SampledSoftmax, Softmax
from sdgar.parts import Ingredients
from sdgar.samplers.static import STATIC, NoDraws
from sdgar.settings import Group
from sdgar.systems.defaults import RATES, EarlyStopping, Optimization
from sdgar.systems.learner import Learner
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.transitions import Transitions

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.splits import Split
    from sdgar.models.transitions import TransitionWeights

_DENSE = 30
"""The events of a user from which on, on average, histories are long."""
_BY_LENGTH = {
    "dim": (64, 128),
    "learning_rate": (0.002, 0.001),
    "batch_size": (2048, 8192),
    "network__length": (50, 200),
    "network__dropout": (0.5, 0.2),
}
"""The values of settings for short histories and for long ones."""
_MOST_ITEMS = 100_000
"""The most items of a catalogue whose scores are all computed in every step."""
_DRAWN = 512
"""How many negatives are drawn in larger catalogues."""
_RULE = "how long histories are"


@dataclass(frozen=True, kw_only=True)
class SequenceNetwork(Group):
    """The network that reads a history."""

    blocks: int = 2
    """The number of blocks of attention."""
    heads: int = 2
    """The heads of each block."""
    width: int = 4
    """The size of the inner layer of a block, in units of ``dim``."""
    length: int | None = None
    """The number of last events that the network reads. Without a value it is 50, and 200 where
    users have 30 events or more on average."""
    dropout: float | None = None
    """The share of numbers that is dropped in training. Without a value it is 0.5, and 0.2 where
    users have 30 events or more on average."""


@dataclass(frozen=True, kw_only=True)
class MemoryWeight(Group):
    """The memory of transitions that is added to the scores of the network."""

    leading: ClassVar[str] = "weight"

    weight: float | None = None
    """The weight γ of the memory in the scores. Without a value it is chosen on validation rows; 0
    leaves the memory out."""


@dataclass(frozen=True, slots=True)
class TransitionMemory:
    """How the memory of transitions is solved that is added to the scores of the network."""

    weight: float | None
    """The weight γ; None if it is chosen on validation rows."""

    tried: ClassVar[tuple[float, ...]] = (20.0, 40.0, 80.0, 160.0, 320.0)
    """The values of γ that are tried."""
    enough: ClassVar[float] = 1.0
    """The share of the best gain that is enough for a smaller γ."""

    @property
    def weight_or_default(self) -> float:
        """The weight γ, or a usual one if it is not chosen yet."""
        return 160.0 if self.weight is None else self.weight

    def solve(self, data: Interactions, device: torch.device) -> TransitionWeights:
        """Return the weights of transitions, with the settings that suit the data."""
        model, _ = Transitions()._solved(data, None, device if device.type == "cuda" else None)
        return model


@estimator
class NextItem(Learner):
    """Predict the next item: a network that reads the last events, and a memory of transitions.

        s_ci = h_c · v_i + b_i + γ m_ci

    h is what blocks of attention make of the last events of c (Kang & McAuley 2018), trained by
    cross-entropy over all items at every place of every history. m are the scores of
    ``Transitions``, and γ is chosen on validation rows: the last event of each user. Rows need
    times.

    >>> rows = {"user": [1, 1, 2, 2, 3], "item": ["a", "b", "a", "b", "a"], "time": [1, 2, 1, 2, 1]}
    >>> model = sdgar.NextItem(dim=4, epochs=2, early_stopping=False).fit(sdgar.read(rows))
    >>> model.recommend(history=["a"], k=1)["item"].to_list()
    ['b']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="next-item",
        presets={"fast": ("transitions", {})},
        searched={"learning_rate": RATES["adam"]},
        rules=dict.fromkeys(_BY_LENGTH, _RULE) | {"n_negatives": "the number of items"},
        uses_weights=True,
    )

    dim: int | None = None  # type: ignore[assignment]
    """The number of coordinates D of a vector. Without a value it is 64, and 128 where users have
    30 events or more on average."""
    learning_rate: float | None = None  # type: ignore[assignment]
    """The learning rate. Without a value it is 0.002, and 0.001 where users have 30 events or more
    on average."""
    batch_size: int | None = None  # type: ignore[assignment]
    """How many training positives one step learns from. Without a value it is 2,048, and 8,192
    where users have 30 events or more on average."""
    optimizer: Optimization = Optimization(name="adam")
    n_negatives: int | None = None  # type: ignore[assignment]
    """How many items are drawn for each positive by their popularity; 0 computes the scores of all
    items. Without a value it is 0 for at most 100,000 items, and 512 for more."""
    early_stopping: EarlyStopping = EarlyStopping(every=4, metric="ndcg@10")
    """How the number of epochs is chosen on validation rows."""
    network: SequenceNetwork = SequenceNetwork()
    """The network that reads a history."""
    item_memory: MemoryWeight = MemoryWeight()  # type: ignore[assignment]
    """The memory of transitions that is added to the scores of the network."""

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return what follows from the length of histories and the number of items."""
        long = len(data) >= _DENSE * data.n_users
        by_rule: dict[str, Any] = {name: values[long] for name, values in _BY_LENGTH.items()}
        by_rule["n_negatives"] = 0 if data.n_items <= _MOST_ITEMS else _DRAWN
        return self._left_to_rules(by_rule)

    def _n_drawn(self) -> int:
        """Return how many negatives are drawn for each positive; a loss over all needs none."""
        given = 0 if self.n_negatives is None else self.n_negatives
        return max(1, at_least("n_negatives", given, 0))

    def _make_discriminator(self, given: Ingredients) -> Discriminator:
        """Return the network, with inner products as scores."""
        data, own = given.data, self.network
        settings: dict[str, Any] = {
            name: at_least(f"network__{name}", getattr(own, name), 1)
            for name in ("blocks", "heads", "width", "length")
        }
        dropout = below_one("network__dropout", own.dropout)
        settings |= {"dim": given.dim, "dropout": dropout, "tau": 0.0}
        with torch.random.fork_rng([]):
            torch.manual_seed(torch_seed(given.seed, Stream.INIT_MODULE))
            module = Sequence(data.n_users, data.n_items, **settings)
            module.prepare(data)
        size = data.n_users, data.n_items
        return Adapter(module, *size, l2=0.0, name="sequence", settings=settings).to(given.device)

    def _make_objective(self, given: Ingredients) -> Objective:
        """Return the cross-entropy over all items, or its estimate from draws."""
        return SampledSoftmax() if self.n_negatives else Softmax()

    def _make_sampler(self, given: Ingredients) -> Sampler:
        """Return the draws by popularity, if there are any."""
        if self.n_negatives:
            return STATIC["popularity"](given)
        return NoDraws()

    def _item_memory(self, data: Interactions) -> Any:
        """Return how the memory of transitions is solved; None without one."""
        weight = self.item_memory.weight
        if weight is not None:
            not_negative("item_memory", weight)
        return None if weight == 0 else TransitionMemory(weight)

    def _validation(self, data: Interactions, seed: int) -> Split:
        """Set the last event of each user aside."""
        return leave_last_out(data)

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return the rule that the network reads the history of a new user."""
        return ByNetwork()
