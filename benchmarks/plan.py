"""Plan trainings past the machines that are here, with the rates of a core that were measured here.

    python benchmarks/plan.py --json benchmarks/reports/plan.json --figure docs/figures/plan.png

A probe measures the rates of one core. They are then scaled to the run of ``sharded_training.json``
with the most rows, whose tables are larger than any cache. What they say of its other runs stands
beside what was measured. Nothing is trained.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from common import REPORTS, machine, options_of, write_report
from sdgar.cli.options import bytes_of
from sdgar.runs.figures import BLUE, GREEN, ORANGE, new_figure
from sdgar.scale.planner.limits import limits
from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.plan import Plan, plan
from sdgar.scale.planner.probe import probe
from sdgar.scale.planner.rates import PARTS, Rates
from sdgar.scale.planner.workload import Workload
from sdgar.systems.sdsoftmax import SDSoftmax

USERS, ITEMS, EVENTS, DIM = 10**9, 10**8, 10**11, 64
KIND = Machines(cores=64, memory=512 << 30, network=12.5e9, disk=2e9, price=3.0)
"""A machine of the plan; its price is an example, and no offer of anyone."""
SCENARIOS = (
    ("one machine", 1, False, None),
    ("16 machines, items copied", 16, False, None),
    ("16 machines, items copied, steps of a million positives", 16, False, 1 << 20),
    ("64 machines, items shared, steps of a million positives", 64, True, 1 << 20),
)
"""A name, the number of machines, whether items are shared, and the positives of a step."""


def workload(growth: float = 1.0, batch: int | None = None) -> Workload:
    """Return the training of the plan, with so many times the users, items and rows."""
    system = SDSoftmax(dim=DIM, batch_size=batch)
    sizes = (max(1, round(growth * n)) for n in (USERS, ITEMS, EVENTS))
    return Workload.made_up(system, *sizes)


def of_run(run: dict[str, Any]) -> Workload:
    """Return the training of a run of ``sharded_training.json``, without times."""
    system = SDSoftmax(dim=run["dim"], epochs=run["epochs"])
    made = Workload.made_up(system, run["users"], run["items"], run["rows"])
    share = min(1.0, made.sizes.together / run["shards"])
    blocks = {
        n: round(share * run[n.removeprefix("block_")]) for n in ("block_users", "block_rows")
    }
    return replace(made, sizes=replace(made.sizes, row_bytes=4, shards=run["shards"], **blocks))


def on_machine(run: dict[str, Any]) -> Machines:
    """Return the machine of a run."""
    return Machines(cores=2, memory=bytes_of("--memory", run["limit"]))


def core_seconds(run: dict[str, Any]) -> dict[str, float]:
    """Return the seconds that cores spent on each part of a run.

    The report has those of the whole process, and the seconds of a clock for each part.
    """
    share = run["train"]["cpu_seconds"] / run["train"]["seconds"]
    return {part: share * run["seconds"][part] for part in PARTS}


def scaled(rates: Rates, run: dict[str, Any]) -> Rates:
    """Return rates that are scaled to a run."""
    work, there = of_run(run), on_machine(run)
    return rates.scaled_to(work, plan(work, there, rates).blocks, core_seconds(run))


def told(run: dict[str, Any], rates: Rates) -> dict[str, Any]:
    """Return what rates say of a run, beside what was measured."""
    found = plan(of_run(run), on_machine(run), rates)
    return {
        "rows": run["rows"],
        "planned": sum(found.core_seconds.values()),
        "measured": run["train"]["cpu_seconds"],
    }


def measure(args: Any) -> dict[str, Any]:
    """Measure rates, and plan with them."""
    work = workload()
    probed = probe(SDSoftmax(dim=DIM), work.sizes)
    report: dict[str, Any] = {
        **machine(), "protocol": "rates of one core by a probe; nothing is trained", "seed": 0,
        "rates": probed.as_dict(), "runs": [], "kind": asdict(KIND),
    }  # fmt: skip
    runs, rates = [], probed
    there = REPORTS / "sharded_training.json"
    if there.exists() and not args.quick:
        runs = sorted(json.loads(there.read_text())["runs"], key=lambda run: run["rows"])
        rates = scaled(probed, runs[-1])
        report["runs"] = [
            told(run, scaled(probed, other)) | {"by": other["rows"]}
            for run in runs for other in runs if other is not run
        ]  # fmt: skip
        report["scaled_to"] = runs[-1]["rows"]
    report["scaled_rates"] = rates.as_dict()
    report["plans"] = {
        name: plan(workload(batch=batch), replace(KIND, count=n), rates, shared=shared).as_dict()
        for name, n, shared, batch in SCENARIOS
    }
    report["limits"] = [
        {"count": count, "items": "shared" if shared else "copied", **asdict(limit)}
        for count, shared in ((1, False), (64, True))
        for limit in limits(
            lambda growth, count=count: workload(growth).for_workers(count),
            replace(KIND, count=count), shared=shared,
        )
    ]  # fmt: skip
    if args.figure is not None:
        draw(args.figure, rates)
    return report


def draw(path: Path, rates: Rates) -> None:
    """Draw seconds and memory against the number of rows: 100 a user, 1,000 an item."""
    growths = [10 ** (power / 4) for power in range(-16, 5)]
    ways = [
        ("one machine", Machines(**asdict(KIND) | {"count": 1}), False, BLUE),
        ("16, items copied", replace(KIND, count=16), False, ORANGE),
        ("64, items shared", replace(KIND, count=64), True, GREEN),
    ]
    figure = new_figure(width=9, height=4)
    hours, memory = figure.subplots(1, 2)
    rows = [growth * EVENTS for growth in growths]
    for name, machines, shared, colour in ways:
        found: list[Plan] = [
            plan(workload(g, 1 << 20), machines, rates, shared=shared) for g in growths
        ]
        hours.loglog(rows, [p.epoch_seconds / 3600 for p in found], color=colour, label=name)
        held = [sum(p.memory.values()) / 2**30 for p in found]
        line = "--" if colour == ORANGE else "-"  # it lies on that of one machine
        memory.loglog(rows, held, line, color=colour, label=name)
    memory.axhline(KIND.memory / 2**30, color="#666666", linestyle=":", label="what a machine has")
    hours.set(xlabel="rows", ylabel="hours of an epoch", title="time, steps of a million positives")
    memory.set(xlabel="rows", ylabel="GiB of a machine", title="memory while training")
    for axes in (hours, memory):
        axes.grid(alpha=0.3)
        axes.legend(loc="best", fontsize=8)
    figure.savefig(path)


def main() -> None:
    """Plan, and write the report and the figure."""
    parser = options_of(__doc__, figure={"type": Path, "help": "draw the figure here"})
    args = parser.parse_args()
    write_report(args.json, measure(args))


if __name__ == "__main__":
    main()
