"""Two versions of sdgar take turns: seconds of an epoch and of a full ranking, as ratios.

    python benchmarks/turns.py --before OTHER/src [--shape gowalla] [--rounds 5] [--json FILE]

Each version runs in a separate process, which waits until it is its turn. Between turns nobody
works for a second, because an epoch begins on fewer cores where another process has just used them.
A ratio is the time of the other version over the time of this one: above 1, this one is quicker. On
a machine with a GPU the GPU engine runs. Only torch, NumPy and a compiler for kernels are needed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from common import FUSED, Contestant, interval_of, machine, options_of, write_report

ROOT = Path(__file__).parents[1]
SYSTEMS = ("SDGAR", "BPR", "SDSoftmax")
PAUSE = 1.0
"""Seconds in which no version works, before each turn."""


def contestant(shape: str, engine: str, *systems: str) -> None:
    """Answer each line, the name of a system or ``ranking``, with the seconds that it took."""
    import numpy as np
    import torch

    import sdgar
    from sdgar.data.synthetic import PRESETS, Shape, generate
    from sdgar.engines.choose import ENGINES
    from sdgar.ranking.topk import top_k
    from sdgar.systems.recipe import recipe_of

    kinds = {name: getattr(sdgar, name) for name in systems}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tiny = Shape(users=60, items=40, interactions=600, concentration=0.15)
    data = generate(tiny if shape == "tiny" else PRESETS[shape], seed=0)
    engines, composed, epochs = {}, {}, dict.fromkeys(systems, 0)
    for name in systems:
        composed[name] = recipe_of(kinds[name]()).compose(data, seed=0, device=device)
        engines[name] = ENGINES[engine](composed[name], data, seed=0, device=device)
        if composed[name].refit_every is not None:
            engines[name].refit(1)

    def turn(name: str) -> float:
        if name == "ranking":
            users = np.arange(min(data.n_users, 20_000))
            start = time.perf_counter()
            top_k(composed[systems[0]].learned().scorer(), users, 50, seen=data.history)
            return time.perf_counter() - start
        epochs[name] += 1
        return engines[name].run_epoch(epochs[name]).seconds

    for name in (*systems, "ranking"):
        turn(name)  # compiles, and is not counted
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(json.loads(line))), flush=True)


def own_copy(source: Path) -> str:
    """Return this script as a version has it, whose names it uses."""
    return str(source.parent / "benchmarks" / Path(__file__).name)


def measured(
    sources: dict[str, Path], shape: str, engine: str, rounds: int, systems: tuple[str, ...],
    pause: float,
) -> dict[str, Any]:  # fmt: skip
    """Make both take turns, and give the median seconds of each and the median ratio."""
    versions = {
        name: Contestant(own_copy(source), source, shape, engine, *systems)
        for name, source in sources.items()
    }
    for version in versions.values():
        version.answer()  # it is ready
    seconds: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for what in (*systems, "ranking"):
            for name, version in versions.items():
                time.sleep(pause)
                seconds.setdefault(what, {}).setdefault(name, []).append(version.ask(what))
    for version in versions.values():
        version.end()
    return {
        what: {name: statistics.median(values) for name, values in both.items()}
        | interval_of([b / n for b, n in zip(both["before"], both["now"], strict=True)])
        for what, both in seconds.items()
    }


def main() -> None:
    """Measure, print and write."""
    parser = options_of(
        __doc__,
        before={"type": Path, "required": True, "help": "the src folder of another version"},
        shape={"default": "gowalla", "help": "a preset of made-up data"},
        rounds={"type": int, "default": 5, "help": "turns of each"},
    )
    options = parser.parse_args()
    shape, engine, rounds, systems, pause = options.shape, FUSED, options.rounds, SYSTEMS, PAUSE
    if options.quick:
        shape, engine, rounds, systems, pause = "tiny", "eager", 1, ("BPR",), 0.0
    sources = {"before": options.before, "now": ROOT / "src"}
    found = measured(sources, shape, engine, rounds, systems, pause)
    for what, row in found.items():
        ends = f"[{row['low']:.3f}, {row['high']:.3f}]"
        times = f"{row['before']:10.4f} s{row['now']:10.4f} s"
        print(f"{what:12}{times}   ratio {row['ratio']:.3f} {ends}")
    write_report(options.json, {**machine(), "shape": shape, "rounds": rounds, "turns": found})


if __name__ == "__main__":
    if sys.argv[1:2] == ["contestant"]:
        contestant(*sys.argv[2:])
    else:
        main()
