"""What a training on shards will take on this machine, told before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sdgar.machine import cores
from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.plan import Plan, plan
from sdgar.scale.planner.probe import probe
from sdgar.scale.planner.workload import Workload
from sdgar.scale.workers import ALONE, Workers

if TYPE_CHECKING:
    from sdgar.scale.shards import Shards
    from sdgar.systems.learner import Learner


def estimated(
    estimator: Learner,
    shards: Shards,
    *,
    memory: int,
    together: int,
    test_users: int,
    workers: Workers = ALONE,
    sharded: bool = False,
) -> Plan:
    """Return the plan of a training, with rates that a probe of some seconds measures here.

    Workers of one machine use its cores together, and count as one, unless items are ``sharded``
    among them. How fast the network is between
    several machines is not measured. It is an estimate of CPUs; rates of a GPU are not known.
    """
    work = Workload.of(estimator, shards, together, test_users)
    here, several = workers.machine_R.count(workers.machine), len({*workers.machine_R})
    threads = cores.found().threads if here == 1 else min(here, cores.found().usable)
    machines = Machines(count=several, cores=threads, memory=memory)
    if sharded:
        machines = replace(machines, count=workers.count, cores=max(1, threads // here))
    return plan(work, machines, probe(estimator, work.sizes), shared=sharded)


def kept(found: Plan) -> dict[str, Any]:
    """Return what the report of a run keeps of its estimate, by the names of its seconds."""
    epochs = found.work.recipe.all_epochs * found.epoch_seconds
    around = found.around
    return {
        "bytes": round(found.bytes_in_memory),
        "cores": found.machines.cores * found.machines.count,
        "seconds": {
            "train": round(epochs + around["start of users"], 3),
            "refit": round(around["latent classes"] + around["refits"], 3),
            "evaluate": round(around["measuring"], 3),
            "start": round(around["start"], 3),
            "memory": round(around["memory of histories"], 3),
            "total": round(found.seconds, 3),
        },
    }
