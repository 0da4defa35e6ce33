"""A trained model, and how it was trained: its epochs, their evaluations and their seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from sdgar.models.model import Model
from sdgar.settings import METRIC
from sdgar.show.printed import Described
from sdgar.training.fit import EpochRecord

Phase = Literal["choose", "final", "all"]
"""The name of a pass: it chooses the number of epochs, trains the model that is measured, or
trains on all rows, including the rows that it was measured on."""

OnPhase = Callable[[Phase, EpochRecord], None]


@dataclass(frozen=True, slots=True)
class Seconds:
    """The seconds that the parts of training took."""

    train: float
    """The seconds of the epochs of the discriminator."""
    refit: float
    """The seconds of the refits of the sampler."""
    evaluate: float
    """The seconds of evaluations on held-out rows."""
    total: float
    """The seconds from the beginning to the end."""
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
    why: str
    """The reason for the choice of the engine."""
    deterministic: bool
    """True if the same seed gives a bit-identical model."""
    epochs: int
    """The number of epochs that were run while choosing."""
    best_epoch: int
    """The epoch that was chosen; 0 for a model that was computed at once."""
    log: tuple[tuple[Phase, EpochRecord], ...]
    """The records of all epochs, with the pass of each."""
    generator: dict[str, float]
    """The numbers of the generator's health in the last epoch; empty without one."""
    valid: dict[str, float]
    """The metrics of the chosen epoch on validation rows; empty if there were none."""
    seconds: Seconds
    """The seconds that training took."""
    positives_per_second: float
    """The training positives that were visited in a second."""
    memory: float = 0.0
    """The weight γ of the item memory in the model; 0 without one."""

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
            seconds=seconds,
        )

    def _lines(self) -> list[str]:
        if not self.epochs:
            return [f"Computed in {self.seconds.total:.1f} s by {self.engine}: {self.why}"]
        said = [f"Trained: epoch {self.best_epoch} of {self.epochs} is kept"]
        said.append(f"{self.seconds.total:.1f} s with engine {self.engine}: {self.why}")
        valid = self.valid.get(METRIC)
        return said if valid is None else [*said, f"NDCG@50 {valid:.4f} on validation rows"]


def computed(model: Model, by: str, seconds: float, n_positives: int) -> Trained:
    """Return the record of a model that was computed from all rows at once, without epochs."""
    return Trained(
        model=model,
        engine=by,
        why="it has no epochs",
        deterministic=True,
        epochs=0,
        best_epoch=0,
        log=(),
        generator={},
        valid={},
        seconds=Seconds(train=seconds, refit=0.0, evaluate=0.0, total=seconds),
        positives_per_second=n_positives / seconds if seconds else 0.0,
    )
