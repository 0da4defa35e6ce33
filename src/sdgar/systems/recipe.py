"""What a system is, and its recipe: how its settings become parts, and how it is trained.

An estimator shows its settings and what one does with a model. Engines, commands and experiments
need more of it: they ask its recipe. This module imports no NumPy, so that ``sdgar train --help``
is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sdgar.arguments import at_least, not_negative
from sdgar.errors import DataError, UsageError

if TYPE_CHECKING:
    import torch

    from sdgar.contracts import System
    from sdgar.data.interactions import Interactions
    from sdgar.data.splits import Split
    from sdgar.systems.base import Estimator
    from sdgar.systems.defaults import Space
    from sdgar.training.fitting import Fit
    from sdgar.training.item_memory import ItemMemorySolver
    from sdgar.training.records import FitOptions, Trained


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSpec:
    """What is true of a system whatever its settings are."""

    name: str = ""
    """The name of the system, on the command line and in saved models."""
    searched: Space = field(default_factory=dict)
    """The settings that ``sdgar tune`` searches, with the values it tries."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """What a rule follows from, in words, for each setting that can be left to a rule."""
    l2_scale: float = 0.04
    """The constant that ``by_rows`` divides to get l2, where l2 is left to a rule."""
    uses_weights: bool = True
    """Whether the weights of rows change what is learned."""
    presets: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """The system and the settings of the presets ``fast`` and ``thorough``, if there are any."""
    computed_by: str = "counting"
    """How the model is computed, in words, for systems without epochs; they have no engine."""


class Recipe:
    """What engines, commands and experiments need of an estimator.

    ``decided`` and ``settled`` are for settings that are left to a rule of the data.
    """

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        """The estimator whose recipe this is."""
        self.spec = estimator._spec
        """What is true of the system whatever its settings are."""
        self.name = self.spec.name
        """The name of the system."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by nested names, as JSON has them."""
        return self.estimator._plain_params()

    @property
    def trained(self) -> Trained:
        """The model and how it was trained; raise if it is not fitted."""
        return self.estimator._trained_as

    @property
    def folds_in(self) -> bool:
        """Whether new users can be folded into its models, from their histories."""
        from sdgar.systems.checks import some_rows

        return self.estimator._fold_rule(some_rows()) is not None

    @property
    def loop(self) -> FitOptions | None:
        """How long the model trains and when it is evaluated; None if it has no epochs."""
        return self.estimator._loop()

    @property
    def warm_loop(self) -> FitOptions | None:
        """How long training continues from an earlier model, in full; None without epochs."""
        options = self.warm_started().loop
        return None if options is None else replace(options, early_stopping=False)

    @property
    def optimizer(self) -> tuple[str, float]:
        """The name of the rule for steps, and the learning rate."""
        return self.estimator._step()

    @property
    def n_states(self) -> int:
        """The number K of states of the generator; 0 without one."""
        return self.estimator._n_states()

    def decided(self, data: Interactions) -> dict[str, Any]:
        """Return the settings that are left to a rule, with the values it gives for the data."""
        return self.estimator._decided(data)

    def settled(self, data: Interactions) -> Recipe:
        """Return the same recipe with nothing left to a rule."""
        return Recipe(self.estimator._settled(data))

    def changed(self, **settings: Any) -> Recipe:
        """Return a recipe with some settings changed."""
        return Recipe(self.estimator._changed(**settings))

    def check(self) -> None:
        """Raise if the parts do not go together or a setting is out of range, before data is read.

        The system is composed for a few synthetic rows. What it needs of the data is not known yet,
        so a lack of features or of times is no fault here.
        """
        import torch

        from sdgar.machine.memory import require_memory
        from sdgar.systems.checks import some_rows

        if self.loop is None:
            return
        some = some_rows()
        require_memory(self.name, self.least_bytes(some), torch.device("cpu"))
        with suppress(DataError):
            self.compose(some, seed=0)
            self.item_memory(some)

    def require_warm_start(self) -> None:
        """Raise if training cannot continue from an earlier model; computed systems start again."""
        from sdgar.systems.checks import some_rows
        from sdgar.training.warm_start import tables_of

        with suppress(DataError):  # what it needs of the data is not known yet
            if self.loop is not None:
                tables_of(self.compose(some_rows(), seed=0, start=False))

    def item_memory(self, data: Interactions) -> ItemMemorySolver | None:
        """Return how the item memory is made; None if there is to be none."""
        return self.estimator._item_memory(data)

    def compose(
        self,
        data: Interactions,
        *,
        seed: int,
        device: torch.device | None = None,
        start: bool = True,
    ) -> System:
        """Return the parts of the system, with ``device`` to compute on; by default it is the CPU.

        Without ``start`` parts are not brought to where training starts, as a state follows.
        """
        learner: Any = self.estimator
        if not hasattr(learner, "_compose"):
            raise UsageError(f"{self.name} is computed at once and has no parts.")
        system: System = learner._compose(data, seed=seed, device=device, start=start)
        return system

    def warm_started(self) -> Recipe:
        """Return the recipe with the epochs and steps by which it continues from a model."""
        if self.loop is None:
            return self
        learner: Any = self.estimator
        share = not_negative("warm_start__rate", learner.warm_start.rate)
        return self.changed(
            epochs=at_least("warm_start__epochs", learner.warm_start.epochs, 1),
            learning_rate=share * self.optimizer[1],
            optimizer__schedule="linear",
        )

    def validation(self, data: Interactions, seed: int) -> Split:
        """Return the training rows with some of them set aside as validation rows."""
        return self.estimator._validation(data, seed)

    def least_bytes(self, data: Interactions) -> int:
        """Count the bytes of tables, of their gradients' sums and of one batch, for a learner.

        Tables have D numbers a context and item, and where there is a generator K more; a batch
        has an index, a score and a probability for each negative.
        """
        own: Any = self.estimator._settled(data)
        width = at_least("dim", own.dim, 1) + own._n_states()
        rows = min(at_least("batch_size", own.batch_size, 1), len(data))
        shared = at_least("sampler__positives_per_visit", own.sampler.positives_per_visit, 1)
        drawn: int = -(-rows // shared) * own._n_drawn()
        tables: int = 2 * 4 * (data.n_users + data.n_items) * width
        return tables + 16 * drawn

    def fit(self, how: Fit) -> Estimator:
        """Train the estimator as a record of fitting says, and return it."""
        from sdgar.systems.checks import require_sound

        if how.phase != "all" and how.protocol != "all":  # else the settings were checked before
            require_sound(self.estimator, how.rows, how.valid)
        self.estimator._fit(how)
        return self.estimator


def recipe_of(estimator: Estimator) -> Recipe:
    """Return the recipe of an estimator."""
    return Recipe(estimator)


def spec_of(estimator: Estimator | type[Estimator]) -> SystemSpec:
    """Return what is true of a system whatever its settings are."""
    return estimator._spec
