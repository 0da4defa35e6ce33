"""The plan of a training: memory, disk, operations, network, seconds and cost on some machines.

    seconds of a part = operations / (rate of a core · cores · machines that share it)

Parts follow each other, as they do in ``training/sharded.py``: nothing is read or sent while
something else is computed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from sdgar.scale.planner import memory, traffic
from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.rates import Rates, operations
from sdgar.scale.planner.workload import Workload

_SHARED_OUT = {"users", "score", "follow", "lead"}
"""The kinds of work that all machines share; with shared items they share ``move``, too."""
_MOST_MACHINES = 1 << 16
"""The most machines that are thought of."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training takes on some machines."""

    work: Workload
    """What is trained."""
    machines: Machines
    """The machines that train."""
    shared: bool
    """Whether items are shared out among the machines; if not, each machine has all of them."""
    memory: dict[str, float]
    """The bytes that a machine holds while it trains, by what they are for."""
    first: dict[str, float]
    """The bytes that the first machine holds before and after training, each at its time."""
    blocks: int
    """The blocks in which the weights between items are solved for."""
    disk: dict[str, float]
    """The bytes on the disk that all machines see."""
    operations: dict[str, float]
    """The operations of all machines, by the kind of work."""
    sent_a_step: float
    """The bytes that a machine sends in a step."""
    epoch: dict[str, float]
    """The seconds of an epoch, by what they are for."""
    around: dict[str, float]
    """The seconds of all that is done beside epochs, by what they are for."""

    @property
    def bytes_in_memory(self) -> float:
        """The most bytes that a machine holds at a time."""
        return max(sum(self.memory.values()), *self.first.values())

    @property
    def fits(self) -> bool:
        """Whether a machine has the memory that it needs."""
        return self.bytes_in_memory <= self.machines.memory

    @property
    def epoch_seconds(self) -> float:
        """The seconds of an epoch."""
        return sum(self.epoch.values())

    @property
    def seconds(self) -> float:
        """The seconds of the whole training."""
        return self.work.recipe.all_epochs * self.epoch_seconds + sum(self.around.values())

    @property
    def sent_an_epoch(self) -> float:
        """The bytes that a machine sends in an epoch."""
        return self.work.steps * self.sent_a_step

    @property
    def core_seconds(self) -> dict[str, float]:
        """The seconds that cores compute, by parts of an epoch and around them, on one machine."""
        computed = {name: s for name, s in self.epoch.items() if name not in _NOT_COMPUTED}
        epochs = {name: self.work.recipe.all_epochs * s for name, s in computed.items()}
        around = {name: s for name, s in self.around.items() if name not in _NOT_COMPUTED}
        both = epochs | around
        threads = {name: 1 if name == "laying rows out" else self.machines.cores for name in both}
        return {name: threads[name] * s for name, s in both.items()}

    @property
    def bottleneck(self) -> str:
        """The part that takes most seconds of the whole training."""
        epochs = {name: self.work.recipe.all_epochs * s for name, s in self.epoch.items()}
        both = epochs | self.around
        return max(both, key=lambda name: both[name])

    def cost(self, seconds: float) -> float:
        """Return the price of all machines for so many seconds."""
        return self.machines.count * self.machines.price * seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "sizes": asdict(self.work.sizes),
            "settings": asdict(self.work.recipe),
            "machines": asdict(self.machines),
            "items": "shared" if self.shared else "copied",
            "memory": self.memory,
            "memory_of_the_first": self.first,
            "bytes_in_memory": self.bytes_in_memory,
            "fits": self.fits,
            "disk": self.disk,
            "operations": self.operations,
            "visits": self.work.visits,
            "steps": self.work.steps,
            "sent_a_step": self.sent_a_step,
            "sent_an_epoch": self.sent_an_epoch,
            "epoch": self.epoch,
            "around": self.around,
            "epoch_seconds": self.epoch_seconds,
            "seconds": self.seconds,
            "epoch_cost": self.cost(self.epoch_seconds),
            "cost": self.cost(self.seconds),
            "bottleneck": self.bottleneck,
        }


_NOT_COMPUTED = {"network", "waiting", "disk", "reading and saving"}
"""The parts in which cores wait."""


def plan(work: Workload, machines: Machines, rates: Rates, *, shared: bool = False) -> Plan:
    """Return what a training takes on these machines, each with a shard of every block."""
    work = work.for_workers(machines.count)
    for_weights, blocks = memory.of_weights(work, machines)
    done, recipe, sizes = operations(work, blocks), work.recipe, work.sizes

    def took(*kinds: str, threads: int = machines.cores) -> float:
        out = _SHARED_OUT | ({"move"} if shared else set())
        return sum(
            done[kind] / (rates.of(kind) * threads * (machines.count if kind in out else 1))
            for kind in kinds
        )

    each = recipe.all_epochs
    user = 2 * (4 * recipe.dim + 4) + 8 * recipe.states
    read = 4 * sizes.events + user * sizes.users / machines.count
    epoch = {
        "scoring": took("score") / each,
        "moving items": took("move") / each,
        **traffic.seconds_of_an_epoch(work, machines, shared=shared),
        "disk": read / machines.disk,
        "laying rows out": took("prepare", threads=1) / each,
    }
    on_disk = memory.on_disk(work)
    around = {
        "reading and saving": (on_disk["shards"] + on_disk["rows in one order"] + on_disk["model"])
        / machines.disk,
        "start": took("start"),
        "latent classes": took("classes"),
        "start of users": took("users"),
        "refits": took("follow", "lead"),
        "memory of histories": took("pairs", "systems", "choose"),
        "judging": took("judge"),
        "measuring": took("measure"),
    }
    return Plan(
        work=work,
        machines=machines,
        shared=shared,
        memory=memory.in_memory(work, machines, shared=shared),
        first={
            "weights between items": for_weights,
            "ids of users": memory.of_saving(work),
        },
        blocks=blocks,
        disk=on_disk,
        operations=done,
        sent_a_step=traffic.sent_a_step(work, machines, shared=shared),
        epoch=epoch,
        around=around,
    )


def least_machines(
    work: Workload, machines: Machines, rates: Rates, *, shared: bool, hours: float | None = None
) -> Plan | None:
    """Return the plan with the fewest machines that have room, and run an epoch within ``hours``.

    Numbers up to 16 are tried one by one, and larger ones in steps of a sixteenth. None if no
    number is enough.
    """
    count = 1
    while count <= _MOST_MACHINES:
        found = plan(work, replace(machines, count=count), rates, shared=shared)
        if found.fits and (hours is None or found.epoch_seconds <= 3600 * hours):
            return found
        count += max(1, count // 16)
    return None
