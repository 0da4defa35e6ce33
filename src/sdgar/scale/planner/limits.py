"""What ends first as data grows: the size at which each part of a plan is not possible any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sdgar.arguments import MOST
from sdgar.maths.neighbours_on_threads import least_memory
from sdgar.scale.planner import memory
from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.workload import Workload

_LARGEST = 2.0**20
"""The largest growth that is looked at, and one over the smallest."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that ends as data grows, and how much larger the data is by then."""

    what: str
    """The sentence that says what ends."""
    growth: float
    """How many times as many users, items and rows there are by then; below 1 it has ended."""
    cure: str
    """The sentence that says what then helps."""


def limits(at: Callable[[float], Workload], machines: Machines, *, shared: bool) -> list[Limit]:
    """Return what ends as users, items and rows grow a million times, the first one first.

    ``at`` gives the workload with so many times the users, items and rows.
    """

    def training(work: Workload) -> bool:
        return sum(memory.in_memory(work, machines, shared=shared).values()) > machines.memory

    def weights(work: Workload) -> bool:
        k = work.recipe.neighbours
        least = least_memory(work.sizes.items, k, threads=machines.cores) if k else 0
        return least > memory.weights_room(work, machines)

    def saving(work: Workload) -> bool:
        return memory.of_saving(work) > machines.memory

    def numbers(work: Workload) -> bool:
        return work.sizes.items > MOST

    less = "Share the items out" if not shared else "Use more machines"
    tested = [
        ("Items do not fit in the memory of a machine.", training, f"{less}, or fewer states."),
        (
            "The first machine has no room to count which items occur together.",
            weights,
            "Use fewer threads or no memory of histories there.",
        ),
        (
            "The first machine has no room for the ids of all users as it saves the model.",
            saving,
            "Give it more memory than the others.",
        ),
        ("Numbers of items have more than 32 bits.", numbers, "Leave rare items out."),
    ]
    found = [
        Limit(what, _growth(at, ended), cure) for what, ended, cure in tested if ended(at(_LARGEST))
    ]
    return sorted(found, key=lambda limit: limit.growth)


def _growth(at: Callable[[float], Workload], ended: Callable[[Workload], bool]) -> float:
    """Return the growth from which on something has ended, to a hundredth."""
    low, high = 1 / _LARGEST, _LARGEST
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        if ended(at(middle)):
            high = middle
        else:
            low = middle
    return high
