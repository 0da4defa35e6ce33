"""The protocol of an engine, and the records of what it can do and did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from sdgar.contracts import Health, System


@dataclass(frozen=True, slots=True)
class EpochStats:
    """The results of one pass over the positives."""

    loss: float
    """The mean loss of a positive."""
    positives: int
    """How many positives were visited."""
    seconds: float
    """The seconds that the epoch took."""
    unanswered: int
    """How many rows had no negative, because their context has every item that was drawn."""
    effective: float | None = None
    """The mean effective number of negatives by their weights; None if the objective has no
    weights."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether an engine can run a system, and why."""

    runs: bool
    """True if the engine can run the system."""
    why: str
    """The sentence that says why the engine is a good choice, or why it cannot run the system."""


@runtime_checkable
class Engine(Protocol):
    """An engine executes epochs of one system on one data set.

    The data are ``Interactions``, or what an engine for larger data takes in their place.
    """

    name: ClassVar[str]

    def __init__(self, system: System, data: Any, *, seed: int, device: torch.device) -> None: ...

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Coverage:
        """Return whether this engine runs the system on the device, and why."""
        ...

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Return whether the same seed gives a bit-identical model on the same machine."""
        ...

    def run_epoch(self, epoch: int) -> EpochStats:
        """Make one pass over the training positives, in the order of the epoch's shuffle."""
        ...

    def refit(self, epoch: int) -> Health:
        """Update the sampler to the discriminator, and return its health."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return parameters, optimiser and sampler state, for a checkpoint."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned."""
        ...
