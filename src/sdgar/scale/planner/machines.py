"""The machines that train: how many, and what one of them has, can send and costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Machines of one kind, each with one worker that uses all its cores."""

    count: int = 1
    """The number of machines."""
    cores: int = 64
    """The cores of a machine."""
    memory: int = 512 << 30
    """The bytes of memory of a machine."""
    network: float = 12.5e9
    """The bytes that a machine sends in a second, while it receives as many."""
    latency: float = 1e-4
    """The seconds until a message to other machines has come."""
    disk: float = 1e9
    """The bytes that a machine reads or writes in a second."""
    price: float = 0.0
    """The price of a machine for an hour."""

    @property
    def rest(self) -> float:
        """The share of anything spread evenly that lies on other machines, 1 - 1/R."""
        return 1 - 1 / self.count
