"""The records of a training: its length, its epochs, its passes, and the model that it made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch import Tensor

from sdgar.arguments import at_least
from sdgar.contracts import Health
from sdgar.evaluation.measures import check_metric
from sdgar.models.model import Model
from sdgar.settings import METRIC
from sdgar.show.printed import Described

if TYPE_CHECKING:
    import torch

    from sdgar.contracts import Learned, System
    from sdgar.data.interactions import Interactions
    from sdgar.data.splits import Split
    from sdgar.training.item_memory import ItemMemorySolver

Phase = Literal["choose", "final", "all"]
"""The name of a pass: it chooses the number of epochs, trains the model that is measured, or
trains on all rows, including the rows that it was measured on."""


VALID_USERS = 5_000
"""The most users of an evaluation on validation rows; of more, a fixed random sample."""


class Trainable(Protocol):
    """What training needs of a recipe that has epochs."""

    @property
    def name(self) -> str:
        """The name of the system."""
        ...

    @property
    def loop(self) -> FitOptions | None:
        """How long the model trains and when it is evaluated."""
        ...

    def changed(self, **settings: Any) -> Trainable:
        """Return a recipe with some settings changed."""
        ...

    def warm_started(self) -> Trainable:
        """Return the recipe by which training continues from an earlier model."""
        ...

    def item_memory(self, data: Interactions) -> ItemMemorySolver | None:
        """Return how the item memory is made; None if there is to be none."""
        ...

    def validation(self, data: Interactions, seed: int) -> Split:
        """Return the training rows with some of them set aside as validation rows."""
        ...

    def least_bytes(self, data: Interactions) -> int:
        """Return the bytes of memory that training takes in any case."""
        ...

    def compose(
        self,
        data: Interactions,
        *,
        seed: int,
        device: torch.device | None = None,
        start: bool = True,
    ) -> System:
        """Return the parts of the system."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """The length of training, and when the model is evaluated during it."""

    epochs: int = 200
    """The most passes over the training positives."""
    evaluate_every: int = 5
    """The number of epochs between two evaluations on the held-out rows."""
    patience: int = 3
    """The number of evaluations without a gain after which training stops."""
    early_stopping: bool = True
    """Whether training stops when patience runs out; otherwise all epochs run and the best
    evaluation counts."""
    metric: str = METRIC
    """The metric that evaluations on the held-out rows compare."""
    keep_last: bool = False
    """Whether all epochs run and the last weights are kept, whatever evaluations show, as where
    the learning rate falls to nothing."""

    def __post_init__(self) -> None:
        """Raise if a value cannot train."""
        at_least("epochs", self.epochs, 1)
        at_least("early_stopping__every", self.evaluate_every, 1)
        at_least("early_stopping__patience", self.patience, 1)
        check_metric(self.metric)

    @property
    def half(self) -> int:
        """The number of epochs after which all rows are trained on, where the last ones count."""
        return (self.epochs + 1) // 2

    @property
    def k(self) -> int:
        """The length of the ranked lists of an evaluation."""
        return check_metric(self.metric)[1]


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """The record of one epoch, a line of the log."""

    epoch: int
    """The number of the epoch, from 1."""
    loss: float
    """The mean loss of the epoch."""
    train_seconds: float
    """The seconds that the epoch took."""
    refit_seconds: float = 0.0
    """The seconds that the refit of the sampler before it took."""
    evaluate_seconds: float = 0.0
    """The seconds of the evaluation on held-out rows after it."""
    metric: float | None = None
    """The metric of the evaluation after it; None if there was none."""
    best: bool = False
    """True if this evaluation was the best so far, or the epoch is the one that is kept."""
    unanswered: int = 0
    """The number of training rows for which no negative was found."""
    effective: float | None = None
    """The mean effective sample size of the negatives' weights; None if they are not weighted."""
    health: dict[str, float] = field(default_factory=dict)
    """The numbers that describe the sampler's proposals since its last refit."""
    complaint: str | None = None
    """The problem of the generator, in the epoch after the refit that showed it; else None."""
    health_line: str = ""
    """The words that describe the sampler's proposals since its last refit."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the JSONL log."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Progress:
    """The state that the loop carries from one epoch to the next, without that of the engine.

    All of it but the weights of the best epoch follows from the log.
    """

    log: list[EpochRecord] = field(default_factory=list)
    """The records of the epochs that were run."""
    best: Learned | None = None
    """The model of the best epoch; None before the first evaluation."""
    before: int = 0
    """The number of epochs of the pass that this one continues."""

    @property
    def epoch(self) -> int:
        """The number of epochs that were run, including earlier passes that this one continues."""
        return self.before + len(self.log)

    @property
    def best_epoch(self) -> int:
        """The epoch with the best evaluation; 0 before the first one."""
        return max((record.epoch for record in self.log if record.best), default=0)

    @property
    def best_metric(self) -> float:
        """The metric of the best evaluation; -inf before the first one."""
        return max((r.metric for r in self.log if r.best and r.metric is not None), default=-inf)

    @property
    def stale(self) -> int:
        """The number of evaluations since the best one."""
        return sum(r.metric is not None for r in self.log if r.epoch > self.best_epoch)

    @property
    def health(self) -> Health:
        """The description of the sampler's proposals since its last refit."""
        return Health(self.log[-1].health, self.log[-1].health_line) if self.log else Health()

    def over(self, options: FitOptions) -> bool:
        """Return whether all epochs are run, or patience has run out."""
        stops = options.early_stopping and not options.keep_last
        tired = stops and self.stale >= options.patience
        return tired or self.epoch >= options.epochs


@dataclass(slots=True)
class Fitted:
    """The result of one pass of training."""

    model: Learned
    """The model that is kept."""
    best_epoch: int
    """The epoch whose weights the model has."""
    log: list[EpochRecord] = field(default_factory=list)
    """The records of all epochs of the pass."""
    state: dict[str, Tensor] | None = None
    """The state of the engine at the end, if the next pass is to continue from it."""

    @property
    def epochs(self) -> int:
        """The number of epochs that were run, including earlier passes that this one continues."""
        return self.log[-1].epoch if self.log else 0


OnPhase = Callable[[Phase, EpochRecord], None]
"""A function that is called after every epoch, with the pass and the record of the epoch."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """The seconds that the parts of training took."""

    train: float
    """The seconds of the epochs of the discriminator."""
    total: float
    """The seconds from the beginning to the end."""
    refit: float = 0.0
    """The seconds of the refits of the sampler."""
    evaluate: float = 0.0
    """The seconds of evaluations on held-out rows."""
    start: float = 0.0
    """The seconds in which the parts of the system were made."""
    memory: float = 0.0
    """The seconds in which the item memory was solved for, and its weight was chosen."""

    def as_dict(self) -> dict[str, float]:
        """Return rounded values, for JSON."""
        return {name: round(getattr(self, name), 3) for name in self.__slots__}

    def plus(self, other: Seconds) -> Seconds:
        """Return the sum of two times."""
        return Seconds(*(getattr(self, n) + getattr(other, n) for n in self.__slots__))


@dataclass(frozen=True, slots=True, repr=False)
class Trained(Described):
    """A trained model, and how it was trained."""

    model: Model
    """The model that is kept."""
    engine: str
    """The name of the engine that trained it, or of what computed it."""
    seconds: Seconds
    """The seconds that training took."""
    positives_per_second: float
    """The training positives that were visited in a second."""
    why: str = "it has no epochs"
    """The reason for the choice of the engine."""
    deterministic: bool = True
    """True if the same seed gives a bit-identical model."""
    epochs: int = 0
    """The number of epochs that were run while choosing."""
    best_epoch: int = 0
    """The epoch that was chosen; 0 for a model that was computed at once."""
    log: tuple[tuple[Phase, EpochRecord], ...] = ()
    """The records of all epochs, with the pass of each."""
    generator: dict[str, float] = field(default_factory=dict)
    """The numbers of the generator's health in the last epoch; empty without one."""
    valid: dict[str, float] = field(default_factory=dict)
    """The metrics of the chosen epoch on validation rows; empty if there were none."""
    memory: float = 0.0
    """The weight γ of the item memory in the model; 0 without one."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Entries of the saved model beyond the usual ones."""

    @property
    def chosen_epoch(self) -> int | None:
        """The epoch that was chosen; None for a model that was computed at once."""
        return self.best_epoch or None

    def once_more(self, after: Trained, *, one_clock: bool) -> Trained:
        """Return the record of a measured model that was then trained again on all rows.

        With ``one_clock`` the seconds of the second training run from the beginning of the first.
        """
        seconds = self.seconds.plus(after.seconds)
        if one_clock:
            seconds = replace(seconds, total=after.seconds.total)
        return replace(
            self,
            model=after.model,
            log=self.log + after.log,
            generator=after.generator,
            about=after.about,
            seconds=seconds,
        )

    def _lines(self) -> list[str]:
        if not self.epochs:
            return [f"Computed in {self.seconds.total:.1f} s by {self.engine}: {self.why}"]
        said = [f"Trained: epoch {self.best_epoch} of {self.epochs} is kept"]
        said.append(f"{self.seconds.total:.1f} s with engine {self.engine}: {self.why}")
        valid = self.valid.get(METRIC)
        return said if valid is None else [*said, f"NDCG@50 {valid:.4f} on validation rows"]
