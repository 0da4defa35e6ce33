"""Compute what training on shards takes on machines that need not be here: hours, RAM and cost.

    python benchmarks/cluster_cost.py --json benchmarks/reports/cluster_cost.json
    python benchmarks/cluster_cost.py --rows 1e9 --users 1e7 --items 1e6 --machines 1 4 --price 2

Nothing is trained. The operations of each kind of work are counted, and divided by how many of them
one core does in a second: those of ``core_rates.json``, scaled to ``sharded_training.json``.

    seconds = operations / (rate of a core · cores · machines that share the work)

Parts follow each other. Items are on every machine; users and visits are shared out.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from common import REPORTS, options_of, write_report
from sdgar.maths.neighbours import least_memory, system_bytes
from sdgar.training.item_memory import WEIGHTS

GIB = 2.0**30
PARTS = {
    "start": ("start",),
    "refit": ("classes", "lead"),
    "train": ("prepare", "users", "score", "move", "follow"),
    "memory": ("pairs", "systems", "choose"),
    "evaluate": ("measure",),
}
"""The kinds of work in each part of the seconds that the report of a run has."""
RATE_OF = {"score": "visits", "move": "visits", "lead": "follow"}
"""The rate of each kind of work that has the rate of another one."""
SHARED = ("users", "score", "follow", "lead")
"""The kinds of work that all machines share."""
STATES, POSITIVES, NEGATIVES = 64, 4, 32
SWEEPS, EM_STEPS, SAMPLES, REFIT_EVERY = 6, 15, 32, 8
"""The defaults of SD-Softmax on large data."""
START_ROWS, SHARD_ROWS = 4_000_000, 1_000_000
TEST_USERS, VALID_USERS, LOOKS = 20_000, 5_000, 2
_TABLE, _LAID_OUT, _RANKED, _PRODUCTS = 20, 64, 50, 4
"""Operations for an entry of a table, for a row of a block, for the place of a score in a list;
products with the matrix in half a sweep of least squares."""
_ROW, _STATE, _COPY, _OPTIMIZER = 44, 12, 20, 64
"""Bytes: a row of a block; a state of a user or an item, and its copy while tables change; what the
optimizer keeps of a user or an item."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The data that is trained on, and the settings that decide how much work there is."""

    rows: float
    users: float
    items: float
    dim: int = 64
    epochs: int = 8
    batch: int = 4096
    together: int = 8
    """The shards of a block."""

    @property
    def passes(self) -> int:
        """The passes: a single epoch runs without validation rows first, unless these are few."""
        held_out = VALID_USERS * self.rows / self.users / 10
        return 2 if self.epochs == 1 and 1000 * held_out >= self.rows else 1

    @property
    def visits(self) -> float:
        """The visits of an epoch: the last one of a user has half of its positives, on average."""
        return self.rows / POSITIVES + self.users * (POSITIVES - 1) / (2 * POSITIVES)

    @property
    def entries(self) -> float:
        """The pairs of a visit and an item of an epoch: all positives, and N for each visit."""
        return self.rows + NEGATIVES * self.visits

    @property
    def pairs(self) -> float:
        """The sum of squared lengths of histories, if lengths are geometric."""
        mean = self.rows / self.users
        return self.users * (2 * mean**2 - mean)

    @property
    def neighbours(self) -> int:
        """The neighbours k of an item in the item memory: as many as it has rows, 50 to 200."""
        return round(min(200, max(50, self.rows / self.items)))

    def users_of(self, rows: float) -> float:
        """Return the number of users who have so many rows."""
        return self.users * min(1.0, rows / self.rows)


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Machines of one kind."""

    count: int = 1
    cores: int = 64
    ram: float = 512 * GIB
    network: float = 12.5e9
    """The bytes that a machine sends in a second, while it receives as many."""
    latency: float = 1e-4
    """The seconds until a message has come."""
    disk: float = 2e9
    """The bytes that a machine reads or writes in a second."""
    price: float = 3.0
    """The price of a machine for an hour; an example, and nobody's offer."""


def operations(work: Training, machines: Machines) -> dict[str, float]:
    """Return the operations by kind of work; the first machine computes the item memory.

    start      least squares: O(D) a row and O(D²) a user and an item
    classes    latent classes: O(K) a row and step of EM, and tables
    users      where the users of every block start: half a sweep, and EM for their states
    prepare    the rows of a block are laid out, by one thread
    score      scores and gradients of u_c and of log Q: 4 D + 2 K an entry
    move       gradients of v_i: 2 D an entry
    follow     draws of the generator as users follow the scores: 2 D + 6 K each
    lead       the same for items, with one block
    pairs      items that occur together, counted once and again for each block of equations
    systems    k³ / 3 for the equations of an item
    choose     the weight of the item memory, on validation rows
    measure    2 D for the score of a user and an item, and its place in a list
    """
    dim, states, k = work.dim, STATES, work.neighbours
    first_rows = min(work.rows, START_ROWS)
    ends = work.users_of(first_rows) + work.items
    sweep = 8 * _PRODUCTS * first_rows * dim + (_PRODUCTS + 1) * ends * 2 * dim**2
    vectors = _PRODUCTS * (4 * dim * work.rows + 2 * dim**2 * work.users)
    tables = (4 * EM_STEPS * (work.rows + work.users) + _TABLE * work.users) * states
    drawn = SAMPLES * (2 * dim + 6 * states) * (ceil(work.epochs / REFIT_EVERY) - 1)
    block = work.users_of(work.together * SHARD_ROWS)
    room = max(0.9 * machines.ram - 9 * work.rows, machines.ram / 4)
    room -= least_memory(int(work.items), k, machines.cores)
    blocks = ceil(work.items * system_bytes(k) / max(system_bytes(k), room))
    looked_at, tested = min(VALID_USERS, work.users), min(TEST_USERS, work.users)
    ranked = 2 * dim + _RANKED
    epochs = work.passes * work.epochs
    return {
        "start": work.passes * (SWEEPS * sweep + _TABLE * ends * states),
        "classes": work.passes * (EM_STEPS * 6 * (first_rows + ends) + _TABLE * ends) * states,
        "users": work.passes * (vectors + tables),
        "prepare": epochs * _LAID_OUT * work.rows,
        "score": epochs * work.entries * (4 * dim + 2 * states),
        "move": epochs * work.entries * 2 * dim,
        "follow": drawn * 2 * work.users,
        "lead": drawn * (3 * block + work.items),
        "pairs": 2 * work.pairs * (1 + blocks),
        "systems": work.items * k**3 / 3,
        "choose": looked_at * work.items * (2 * dim + (1 + len(WEIGHTS)) * _RANKED),
        "measure": work.items * ((LOOKS * looked_at + tested) * ranked + tested * _RANKED),
    }


def of_run(run: Mapping[str, Any]) -> dict[str, float]:
    """Return the operations of a run of ``sharded_training.json``."""
    sizes = {name: float(run[name]) for name in ("rows", "users", "items")}
    work = Training(**sizes, dim=run["dim"], epochs=run["epochs"])
    ram = GIB * float(run["limit"].removesuffix("GiB"))
    return operations(work, Machines(cores=2, ram=ram))


def core_seconds(run: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds that cores spent on each part of a run.

    The report has those of the whole process, and the seconds of a clock for each part.
    """
    share = run["train"]["cpu_seconds"] / run["train"]["seconds"]
    return {part: share * run["seconds"][part] for part in PARTS}


def scaled(rates: Mapping[str, float], run: Mapping[str, Any]) -> dict[str, float]:
    """Return rates by which each part of a run takes the seconds of cores that it took."""
    done, took, found = of_run(run), core_seconds(run), {}
    for part, kinds in PARTS.items():
        expected = sum(done[kind] / rates[RATE_OF.get(kind, kind)] for kind in kinds)
        for kind in kinds:
            found[kind] = rates[RATE_OF.get(kind, kind)] * (expected / took[part] or 1.0)
    return found


def ram_of(work: Training, count: int = 1) -> dict[str, float]:
    """Return the bytes of RAM that a machine needs while it trains, without libraries.

    Vectors are held twice, for the kernels and for the model. Tables of items or of users have a
    copy while they are changed, never both. The same numbers bound ``sdgar train --ram``.
    """
    each = 8 * work.dim + _STATE * STATES + _OPTIMIZER
    rows = max(min(work.rows, START_ROWS), min(work.rows, max(work.together, count) * SHARD_ROWS))
    users = max(work.users_of(min(work.rows, START_ROWS)), work.users_of(rows) / count)
    copies = max(0.0, users - work.items) * _COPY * STATES
    return {
        "items": work.items * (each + _COPY * STATES),
        "block": users * each + copies + _ROW * rows,
    }


def cost(work: Training, machines: Machines, rates: Mapping[str, float]) -> dict[str, Any]:
    """Return the hours of an epoch and of everything, the RAM of a machine, and the price."""
    threads = dict.fromkeys(rates, machines.cores) | {"prepare": 1}
    threads |= dict.fromkeys(SHARED, machines.cores * machines.count)
    done = operations(work, machines)
    seconds = {kind: n / (rates[kind] * threads[kind]) for kind, n in done.items()}
    # Each visit has D + 2 (P + N) + 4 numbers, which go to all other machines.
    numbers = work.dim + 2 * (POSITIVES + NEGATIVES) + 4
    sent = (machines.count - 1) * work.visits / machines.count * 4 * numbers
    waited = work.visits * POSITIVES / work.batch * machines.latency if sent else 0.0
    user_bytes = 2 * (4 * work.dim + 4) + 8 * STATES
    read = 4 * work.rows + user_bytes * work.users / machines.count
    epoch = {
        "scores": seconds["score"] / work.epochs,
        "items": seconds["move"] / work.epochs,
        "rows": seconds["prepare"] / work.epochs,
        "network": sent / machines.network + waited,
        "disk": read / machines.disk,
    }
    around = {
        "start": sum(seconds[kind] for kind in ("start", "users", "classes", "follow", "lead")),
        "item memory": sum(seconds[kind] for kind in PARTS["memory"]),
        "measuring": seconds["measure"],
    }
    hours = {name: s / 3600 for name, s in {**epoch, **around}.items()}
    epoch_hours = sum(hours[name] for name in epoch)
    total = work.epochs * epoch_hours + sum(hours[name] for name in around)
    ram = ram_of(work, machines.count)
    return {
        **asdict(work),
        "machines": asdict(machines),
        "hours": hours,
        "epoch_hours": epoch_hours,
        "epoch_cost": epoch_hours * machines.count * machines.price,
        "total_hours": total,
        "cost": total * machines.count * machines.price,
        "ram": ram,
        "ram_gib": sum(ram.values()) / GIB,
        "fits": sum(ram.values()) <= machines.ram,
        "sent_gib": sent / GIB,
    }


def report_of(
    works: list[Training], kinds: list[Machines], measured: Path = REPORTS
) -> dict[str, Any]:
    """Return the cost of each training on machines of each kind, by the rates of reports."""
    rates = json.loads((measured / "core_rates.json").read_text())["rates"]
    runs = json.loads((measured / "sharded_training.json").read_text())["runs"]
    runs.sort(key=lambda run: run["rows"])
    checks = []
    for run, other in itertools.permutations(runs, 2):
        by, done = scaled(rates, other), of_run(run)
        computed = sum(n / by[kind] for kind, n in done.items())
        sizes = {"rows": run["rows"], "by": other["rows"]}
        checks.append({**sizes, "computed": computed, "measured": sum(core_seconds(run).values())})
    largest = scaled(rates, runs[-1])
    return {
        "by": {name: runs[-1][name] for name in ("rows", "commit", "cpu")},
        "rates": largest,
        "plans": [cost(work, machines, largest) for work in works for machines in kinds],
        "checks": checks,
    }


def main() -> None:
    """Compute the costs, print them, and write the report."""
    parser = options_of(
        __doc__,
        rows={"type": float, "default": 1e11},
        users={"type": float, "default": 1e9},
        items={"type": float, "default": 1e8},
        dim={"type": int, "nargs": "+", "default": [64, 128]},
        machines={"type": int, "nargs": "+", "default": [1, 4, 16]},
        cores={"type": int, "default": 64},
        ram={"type": float, "default": 512.0, "help": "GiB of a machine"},
        price={"type": float, "default": 3.0, "help": "of a machine for an hour"},
    )
    args = parser.parse_args()
    work = Training(rows=args.rows, users=args.users, items=args.items, batch=1 << 20)
    kind = Machines(cores=args.cores, ram=args.ram * GIB, price=args.price)
    works = [replace(work, dim=dim) for dim in args.dim]
    kinds = [replace(kind, count=count) for count in args.machines]
    found = report_of(works, kinds)
    for plan in found["plans"]:
        print(
            f"D = {plan['dim']}, {plan['machines']['count']} machines: {plan['epoch_hours']:.2f} h "
            f"an epoch, {plan['total_hours']:.1f} h in all for {plan['cost']:,.0f}, "
            f"{plan['ram_gib']:.0f} GiB each{'' if plan['fits'] else ', which they do not have'}"
        )
    write_report(args.json, found)


if __name__ == "__main__":
    main()
