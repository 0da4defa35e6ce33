"""The system Transitions: what follows what, by least squares on decayed histories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import at_least, not_negative, one_of, within
from sdgar.data.interactions import Interactions
from sdgar.data.ordered import sequences_of
from sdgar.errors import UsageError
from sdgar.machine.threads import run_parts
from sdgar.maths.rng import Stream, sort_keys
from sdgar.maths.rows import Rows
from sdgar.maths.sequences import Sequences
from sdgar.maths.transitions import ALL_ARE_NEIGHBOURS, Decay, Neighbours, Solution, weights
from sdgar.models.transitions import TransitionWeights
from sdgar.show import progress
from sdgar.systems.checks import require_features_used, require_learnable
from sdgar.systems.defaults import Choice
from sdgar.systems.parameters import estimator
from sdgar.systems.recipe import SystemSpec
from sdgar.systems.solver import ItemItem

if TYPE_CHECKING:
    import torch

    from sdgar.models.model import Model
    from sdgar.training.fitting import Fit

DECAYS = (Decay(1.0, 0.05), Decay(3.0, 0.1), Decay(8.0, 0.2), Decay(25.0, 0.3))
"""What is tried for how fast events fade, where it is not given."""
ALPHAS = (0.1, 0.3, 0.6)
L2S = (25.0, 100.0, 400.0)
BETAS = (0.0, 0.05, 0.1, 0.2)
"""What is tried for α, λ and β, where they are not given."""
_TRIED_NEIGHBOURS = 50
"""The neighbours of an item while settings are tried, which is enough to compare them."""
_VALID_USERS = 12_000
"""The most contexts whose last event is predicted to choose settings."""
_TOP = 10
"""Settings are compared by NDCG@10."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The settings of a memory of transitions."""

    decay: Decay
    """How fast events fade."""
    solution: Solution
    """The share α and the penalty λ."""
    beta: float
    """The power β by which popular items are held back."""

    def as_dict(self) -> dict[str, float]:
        """Return the settings by name."""
        return {
            "tau": self.decay.tau, "floor": self.decay.floor, "alpha": self.solution.alpha,
            "l2": self.solution.l2, "beta": self.beta,
        }  # fmt: skip


@estimator
class Transitions(ItemItem):
    """Predict the next item from the last ones, by least squares: what comes after what.

        s_e  = φ + (1 - φ) exp(-(events after e) / τ)
        A    = α X'X + (1 - α) S'S + λ I,   B = α X'X + (1 - α) S'T
        w_i  = A_SS^-1 B_Si,   s_ci = (n_i + 1)^-β Σ_{e of c} s_e w_{i_e i}

    S are the decayed histories before each event, T the items of these events, and X all events of
    a context; n_i is the number of events of item i. Settings that are not given are chosen: the
    last event of each user is predicted by a model that was learned without it. Rows need times.

    >>> rows = {"user": [1, 1, 2, 2, 3], "item": ["a", "b", "a", "b", "a"], "time": [1, 2, 1, 2, 1]}
    >>> model = sdgar.Transitions(l2=1.0).fit(sdgar.read(rows))
    >>> model.recommend(history=["a"], k=1)["item"].to_list()
    ['b']
    """

    _spec: ClassVar[SystemSpec] = SystemSpec(
        name="transitions",
        computed_by="least squares on transitions",
        searched={"shrink": Choice((0.0, 10.0, 30.0, 100.0))},
        uses_weights=False,
    )

    neighbours: int | None = None
    """The number k of items that contribute to the score of an item. Without a value it is 200, and
    in catalogues of at most 4,096 items all others."""
    tau: float | None = None
    """The number τ of events after which the part of an event that fades is down to 1/e."""
    floor: float | None = None
    """The part φ of an event that never fades."""
    alpha: float | None = None
    """The share α of what is had together, whatever the order."""
    l2: float | None = None
    """The weight λ of the squared weights."""
    beta: float | None = None
    """The power β by which popular items are held back."""
    device: str = "auto"
    """The device that computes: cpu, cuda, or auto, which is the CPU unless Numba is missing."""
    shrink: float = 10.0
    """What is added to the denominator by which neighbours are chosen, so that rare items are not
    neighbours by accident."""

    def _compute(self, train: Interactions, how: Fit) -> tuple[Model, dict[str, Any]]:
        """Choose what is not given, and solve for the weights of all events."""
        require_learnable(train)
        require_features_used(self, train)
        progress.report(
            f"computing {self._spec.name} from {train.size_text()}", verbose=how.verbose
        )
        model, chosen = self._solved(train, how.valid, gpu_of(self.device))
        return model, {"computed_by": self._spec.computed_by, "chosen": chosen.as_dict()}

    def _solved(
        self, train: Interactions, valid: Interactions | None, device: torch.device | None
    ) -> tuple[TransitionWeights, Chosen]:
        """Return the model, and the settings that it was solved with."""
        events, n = sequences_of(train), train.n_items
        if self.neighbours is None:
            k = n - 1 if n <= ALL_ARE_NEIGHBOURS else 200
        else:
            k = min(at_least("neighbours", self.neighbours, 1), n - 1)
        near = Neighbours(k=max(1, k), shrink=not_negative("shrink", self.shrink))
        chosen = self._chosen(trial_of(train, valid, events, near, device))
        (weight_II,) = weights(events, n, chosen.decay, near, (chosen.solution,), device)
        scale_I = popularity_scale(events, n, chosen.beta)
        scaled = replace(weight_II, weight_E=weight_II.weight_E * scale_I[weight_II.column_E])
        return TransitionWeights(train.history, scaled, events, chosen.decay), chosen

    def _chosen(self, tried: Trial | None) -> Chosen:
        """Return the settings as given, or the best ones on events that are held out."""
        if (self.tau is None) != (self.floor is None):
            raise UsageError(
                "tau and floor go together: give both, or none of them.", code="bad_option"
            )
        decays: tuple[Decay, ...] = DECAYS
        if self.tau is not None and self.floor is not None:
            tau, floor = not_negative("tau", self.tau), not_negative("floor", self.floor)
            decays = (Decay(within("tau", tau, 0.01, 1e6), within("floor", floor, 0, 1)),)
        alphas: tuple[float, ...] = ALPHAS
        if self.alpha is not None:
            alphas = (within("alpha", not_negative("alpha", self.alpha), 0, 1),)
        l2s = L2S if self.l2 is None else (not_negative("l2", self.l2),)
        betas = BETAS if self.beta is None else (not_negative("beta", self.beta),)
        middle = Solution(alphas[len(alphas) // 2], l2s[len(l2s) // 2])
        if tried is None or len(decays) * len(alphas) * len(l2s) * len(betas) == 1:
            return Chosen(decays[len(decays) // 3], middle, betas[0])
        found = [tried.best(decay, (middle,), betas) for decay in decays]
        decay = decays[int(np.argmax([value for value, _, _ in found]))]
        every = tuple(Solution(alpha, l2) for alpha, l2 in product(alphas, l2s))
        _, solution, beta = tried.best(decay, every, betas)
        return Chosen(decay, solution, beta)


@dataclass(frozen=True, slots=True)
class Trial:
    """Sequences to learn from, and the event that came next, to choose settings by."""

    events: Sequences
    """The events to learn from."""
    history: Sequences
    """What some users had before the event that is predicted."""
    target_T: NDArray[np.int64]
    """The item of this event."""
    n_items: int
    """The number of items."""
    near: Neighbours
    """The neighbours of an item."""
    device: torch.device | None = None
    """The GPU that computes; None for the CPU."""

    def best(
        self, decay: Decay, solutions: tuple[Solution, ...], betas: tuple[float, ...]
    ) -> tuple[float, Solution, float]:
        """Return the highest NDCG@10, and the solution and the power that have it."""
        found = weights(self.events, self.n_items, decay, self.near, solutions, self.device)
        scale_GI = np.stack([popularity_scale(self.events, self.n_items, b) for b in betas])
        best = (-1.0, solutions[0], betas[0])
        for solution, weight_II in zip(solutions, found, strict=True):
            rank_TG = self._ranks(decay, weight_II, scale_GI)
            hit_TG = (rank_TG >= 0) & (rank_TG < _TOP)
            gain_TG = np.where(hit_TG, 1 / np.log2(np.maximum(rank_TG, 0) + 2.0), 0)
            value_G = gain_TG.mean(axis=0)
            at = int(np.argmax(value_G))
            if value_G[at] > best[0]:
                best = (float(value_G[at]), solution, betas[at])
        return best

    def _ranks(self, decay: Decay, w: Rows, scale_GI: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return how many items score above each target under each scale; -1 without a score."""
        strength_E, hidden = decay.strengths(self.history), not self.near.repeats
        if self.device is not None:
            from sdgar.maths.transitions_on_device import ranks_on_device

            return ranks_on_device(
                self.history, strength_E, self.target_T, w, scale_GI, self.device, hidden=hidden
            )
        from sdgar.kernels.numba import transitions

        rank_TG = np.empty((self.history.n_users, len(scale_GI)), np.int32)
        own = self.history.start_U1, self.history.item_E, strength_E

        def count(first: int, last: int) -> None:
            transitions.ranks(
                first, last, *own, self.target_T, w.start_R1, w.column_E, w.weight_E, scale_GI,
                hidden, rank_TG, np.zeros(self.n_items, np.float32),
                np.empty(self.n_items, np.int32), np.empty(len(scale_GI), np.float32),
            )  # fmt: skip

        run_parts(count, len(rank_TG), len(own[1]) * self.near.k)
        return rank_TG


def trial_of(
    train: Interactions,
    valid: Interactions | None,
    events: Sequences,
    near: Neighbours,
    device: torch.device | None = None,
) -> Trial | None:
    """Return the event that settings are chosen by: the first validation row of each user.

    Without validation rows it is the last event of each user with at least three. None if there is
    none. Few neighbours are enough to compare settings.
    """
    near = replace(near, k=min(near.k, _TRIED_NEIGHBOURS))
    if valid is None:
        long_U = np.flatnonzero(events.length_U >= 3)
        users_T = _some(long_U)
        learned = events.rows(long_U).before_last()[0]
        history, last_T = events.rows(users_T).before_last()
        target_T = last_T.astype(np.int64)
    else:
        user_U = train.users.index_of(valid.users.values)
        item_I = train.items.index_of(valid.items.values)
        later = sequences_of(valid)
        at = np.flatnonzero(user_U >= 0)
        first = item_I[later.item_E[later.start_U1[at]]]
        at, first = at[first >= 0], first[first >= 0]
        chosen = _some(np.arange(len(at)))
        learned, users_T, target_T = events, user_U[at[chosen]], first[chosen]
        history = events.rows(users_T)
    return Trial(learned, history, target_T, train.n_items, near, device) if len(users_T) else None


def _some(users_T: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most ``_VALID_USERS`` of some users, always the same."""
    key_T = sort_keys(0, Stream.VALID_SAMPLE, 0, users_T)
    return np.sort(users_T[np.argsort(key_T, kind="stable")[:_VALID_USERS]])


def gpu_of(name: str) -> torch.device | None:
    """Return the GPU, if the device of this name is one; kernels on the CPU need no torch."""
    one_of("device", name, ("auto", "cpu", "cuda"))
    if name == "cpu" or (name == "auto" and find_spec("numba") is not None):
        return None
    from sdgar.engines.choose import choose_device

    device = choose_device(name)
    return device if device.type == "cuda" else None


def popularity_scale(events: Sequences, n_items: int, beta: float) -> NDArray[np.float32]:
    """(n_i + 1)^-β, over its mean, so that scores of any β are alike in size."""
    count_I = np.bincount(events.item_E, minlength=n_items)
    scale_I = (count_I + 1.0) ** -beta
    found: NDArray[np.float32] = (scale_I / scale_I.mean()).astype(np.float32)
    return found
