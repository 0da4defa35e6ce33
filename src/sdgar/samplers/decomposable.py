"""The sampling-decomposable generator (Eq. 6): learned proposals, drawn in O(1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from sdgar.arguments import at_least
from sdgar.contracts import Health, KnownPositives, Negatives, Positives, Score
from sdgar.errors import UsageError
from sdgar.maths.rng import Draws, Stream, uniform_range
from sdgar.samplers.alias import AliasTables, draw_through, log_mix
from sdgar.samplers.static import redraw_known

if TYPE_CHECKING:
    from sdgar.parts import Ingredients


class Exchange(Protocol):
    """How several processes divide the work of an update of the generator."""

    @property
    def leads(self) -> bool:
        """True in the one process that changes what belongs to items."""
        return True

    def own_chunks(self, count: int) -> range:
        """Return the numbers of the chunks that this process computes, of so many."""
        return range(count)

    def collect(
        self, chunks: list[Tensor | None], shapes: Sequence[tuple[int, ...]]
    ) -> list[Tensor]:
        """Return the chunks of all processes, which have these shapes."""
        return [chunk for chunk in chunks if chunk is not None]


class OneProcess(Exchange):
    """The exchange of a process that computes everything by itself."""


class Update(Protocol):
    """A rule by which a generator follows the scores of the discriminator."""

    @property
    def log_target(self) -> Callable[[Tensor], Tensor] | None:
        """log P(i | c) of a score, up to a constant of the context; None without a target."""
        ...

    def __call__(self, generator: Decomposable, score: Score, *, seed: int, epoch: int) -> None:
        """Move the generator towards the scores."""
        ...


class Decomposable:
    """Q(i | c) = Σ_k x_ck y_ik: a state k from x_c, then an item from y_k, by alias tables.

    X (contexts × states, rows sum to 1) and Y (items × states, columns sum to 1) start uniform
    at random, as in Algorithm 1, and follow the discriminator by ``update``. log Q is computed
    from the probabilities of the very tables that are drawn from. Tables of states have bins of
    32 bits, which need half of the cache lines: x_ck is a multiple of 2^-16 / K, exactly.
    """

    uses_scores: ClassVar[bool] = False
    knows_log_q: ClassVar[bool] = True
    counts_tries: ClassVar[bool] = False
    redraws_positives: ClassVar[bool] = True

    def __init__(
        self,
        n_users: int,
        n_items: int,
        states: int,
        *,
        seed: int,
        update: Update,
    ) -> None:
        self.update = update
        """The update by which the generator follows the discriminator."""
        self.items_follow = True
        """Whether an update moves Y too, or X alone."""
        self.exchange: Exchange = OneProcess()
        """How the processes that compute an update together divide it."""
        self.set_x(_random(seed, 0, n_users, states))
        self.set_y(_random(seed, n_users, n_users + n_items, states))

    @classmethod
    def of(cls, given: Ingredients, states: int, update: Update) -> Self:
        """Return a generator for the users and items of some rows."""
        size = given.data.n_users, given.data.n_items, at_least("sampler__states", states, 1)
        return cls(*size, seed=given.seed, update=update)

    def set_x(self, weight_UK: Tensor) -> None:
        """Set the rows x_c and build the tables of P(k | c)."""
        self._take_x(tables_of_states(weight_UK))

    def set_y(self, weight_IK: Tensor) -> None:
        """Set the columns y_k and build the tables of P(i | k)."""
        self._take_y(AliasTables.of(weight_IK.T))

    def for_users(self, state_of: AliasTables) -> Self:
        """Return the generator of other contexts, whose states are given; items are shared."""
        other = copy(self)
        other._take_x(state_of)
        return other

    def share_items(self, item_of: AliasTables, y_IK: Tensor | None = None) -> None:
        """Draw from the tables of items of another generator, whose probabilities may be given."""
        if y_IK is None:
            self._take_y(item_of)
        else:
            self.item_of, self.y_IK = item_of, y_IK

    def permute_x(self, other_U: Tensor) -> None:
        """Set the states of context u to the states of context ``other_U[u]``."""
        self._take_x(AliasTables(self.state_of.bin_RN[other_U]))

    def _take_x(self, tables: AliasTables) -> None:
        self.state_of = tables
        self.x_UK = tables.probability()

    def _take_y(self, tables: AliasTables) -> None:
        self.item_of = tables
        self.y_IK = tables.probability_by_entry()

    def draw(self, users: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        """Draw items from Q(. | c), one for each (row, slot): four words, two table look-ups."""
        return draw_through(self.state_of, self.item_of, users, draws, slots)

    def log_q(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """log Q(i | c) = log Σ_k x_ck y_ik."""
        return log_mix(self.x_UK, users_B, self.y_IK, items_BN)

    def log_q_of(self, users_B: Tensor, items_BN: Tensor, known: KnownPositives | None) -> Tensor:
        """log Q(i | c) of a single draw; known positives are drawn again."""
        return self.log_q(users_B, items_BN)

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n items a row from Q(. | c); known positives are drawn again.

        Redrawing divides Q by the mass of the unknown items, a constant of the row that the
        weights cancel, so log Q stays as it is.
        """
        items_BN, accepted_BN = redraw_known(self.draw, positives, n)
        return Negatives(items_BN, accepted_BN, self.log_q(positives.users_B, items_BN))

    def refit(self, score: Score, *, seed: int, epoch: int) -> Health:
        """Update X and Y once, and return the health of the generator."""
        self.update(self, score, seed=seed, epoch=epoch)
        if not self.exchange.leads:
            return Health()
        from sdgar.samplers.health import health

        target = self.update.log_target
        return health(self.x_UK, self.y_IK, score, target=target, seed=seed, epoch=epoch)

    def to(self, device: torch.device) -> Self:
        """Move the tables to a device, unless they are there."""
        for tables, take in ((self.state_of, self._take_x), (self.item_of, self._take_y)):
            if (moved := tables.to(device)).bin_RN is not tables.bin_RN:
                take(moved)
        return self

    def state(self) -> dict[str, Tensor]:
        """Return the masses, from which tables and probabilities follow."""
        return {"x_mass_UK": self.state_of.mass_RN, "y_mass_KI": self.item_of.mass_RN}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Build the tables of saved masses."""
        self._take_x(AliasTables.restored(state["x_mass_UK"]))
        self._take_y(AliasTables.restored(state["y_mass_KI"]))


def tables_of_states(weight_UK: Tensor) -> AliasTables:
    """Build the tables of P(k | c) from weights."""
    return AliasTables.of(weight_UK, bits=16 if weight_UK.shape[1] <= 1 << 16 else 32)


def _random(seed: int, first: int, last: int, states: int) -> Tensor:
    """Return the weights that rows first … last - 1 start with; contexts come before items."""
    line = uniform_range(seed, Stream.INIT_GENERATOR, first * states, last * states)
    return torch.from_numpy(line).view(last - first, states)


def decomposable(
    given: Ingredients,
    *,
    states: int | None = None,
    samples: int | None = None,
    lambda_x: float | None = None,
    lambda_y: float | None = None,
    floor_x: float | None = None,
    floor_y: float | None = None,
    pretrain: int | None = None,
) -> Decomposable:
    """Return a generator that follows by SD-GAR's closed form for its objective, else by EM.

    Settings that are not given are as in ``ClosedFormSettings`` or ``EMSettings``.
    """
    from sdgar.samplers.closed_form import ClosedFormSettings, closed_form_generator
    from sdgar.samplers.em import EMSettings, em_generator

    of_form = _present(lambda_x=lambda_x, lambda_y=lambda_y)
    of_em = _present(floor_x=floor_x, floor_y=floor_y, pretrain=pretrain)
    size = _present(states=states, samples=samples)
    # Only the objective of SD-GAR has a temperature, which the closed form follows.
    temperature = getattr(given.objective, "temperature", None)
    if temperature is not None:
        _require_absent(of_em, "a generator that follows objective sdgar has a closed form")
        own = ClosedFormSettings(**size, **of_form)
        return closed_form_generator(given, own, temperature=temperature)
    _require_absent(of_form, "only a generator that follows objective sdgar has a λ")
    return em_generator(given, EMSettings(**size, **of_em))


def _present(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _require_absent(settings: Mapping[str, Any], why: str) -> None:
    for name in settings:
        raise UsageError(f"sampler__{name} has no meaning here: {why}.", code="bad_setting")
