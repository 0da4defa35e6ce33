"""Seconds until SD-Softmax is as good as a value, by two versions of sdgar that take turns.

    python benchmarks/reach.py --before OTHER/src --packed carry [--rounds 3] [--json FILE]

Each version runs in a separate process, which waits until it is its turn. It is first asked for
the least number of epochs, of those given, after which test NDCG@50 is not below the value; then
whole fits of so many epochs are timed, from the rows to the model. The later version is there three
times: SD-Softmax as it is by default, which chooses the weight of its memory on validation rows and
so trains twice; a small SD-Softmax (``SMALL``), which is told all that; and ``quick``, which is
what SD-Softmax starts from, with a memory. A ratio is the time of the other version over the time
of this one.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from common import ROOT, Contestant, from_npz, machine, options_of, write_report

VALUES = {"citeulike": 0.170, "gowalla": 0.210}
EPOCHS = {"before": (2, 4, 6, 8, 10, 15, 20, 30, 40), "now": (1, 2, 4, 8), "small": (1, 2, 4, 8)}
SMALL: dict[str, Any] = {
    "dim": 32,
    "sampler__states": 32,
    "sampler__pretrain": 4,
    "item_memory": 32.0,
}
"""Shorter vectors, fewer states, fewer steps of EM before training, a memory of a fixed weight."""


def contestant(path: str, which: str, value: str, *epochs: str) -> None:
    """Return the number of epochs that is enough, then for each line the seconds of a fit."""
    import sdgar
    from sdgar.data.synthetic import Shape, generate

    if path == "tiny":
        train = test = generate(
            Shape(users=60, items=40, interactions=600, concentration=0.15), seed=0
        )
    else:
        train, test = from_npz(Path(path))

    def fitted(count: int) -> Any:
        if which == "quick":
            return sdgar.Quick().fit(train)
        if which == "now":
            return sdgar.SDSoftmax(epochs=count).fit(train)
        settings = SMALL if which == "small" else {}
        return sdgar.SDSoftmax(epochs=count, early_stopping=False, **settings).fit(train)

    for count in map(int, epochs):
        reached = fitted(count).evaluate(test, ks=(50,)).means()["ndcg@50"]
        if reached >= float(value):
            break
    print(json.dumps([count, reached]), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        fitted(count)
        print(json.dumps(time.perf_counter() - start), flush=True)


def measured(before: Path, path: str, value: float, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Make all take turns, and give their median seconds and ratios."""
    now = ROOT / "src"
    sources = {"before": before, "now": now, "small": now, "quick": now}
    versions = {
        name: Contestant(
            __file__, source, path, name, value, *((1,) if quick else EPOCHS.get(name, (0,)))
        )
        for name, source in sources.items()
    }
    reached = {name: version.answer() for name, version in versions.items()}
    seconds: dict[str, list[float]] = {name: [] for name in versions}
    for _ in range(rounds):
        for name, version in versions.items():
            seconds[name].append(version.ask("fit"))
    rows = {
        name: {
            "epochs": epochs,
            "ndcg@50": found,
            "seconds": statistics.median(seconds[name]),
            "ratio": statistics.median(
                first / own for first, own in zip(seconds["before"], seconds[name], strict=True)
            ),
        }
        for name, (epochs, found) in reached.items()
    }
    for version in versions.values():
        version.end()
    return {"value": value, **rows}


def main() -> None:
    """Measure, print and write."""
    parser = options_of(
        __doc__,
        before={"type": Path, "required": True, "help": "the src folder of another version"},
        packed={"type": Path, "metavar": "DIR", "help": "where accuracy.py pack wrote"},
        rounds={"type": int, "default": 3, "help": "turns of each"},
    )
    options = parser.parse_args()
    report: dict[str, Any] = {**machine(), "rounds": options.rounds, "small": SMALL, "data": {}}
    for name, value in {"tiny": 0.0}.items() if options.quick else VALUES.items():
        path = name if options.quick else str(options.packed / f"{name}.npz")
        row = measured(options.before, path, value, options.rounds, quick=options.quick)
        print(name, json.dumps(row, indent=1), flush=True)
        report["data"][name] = row
        write_report(options.json, report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["contestant"]:
        contestant(*sys.argv[2:])
    else:
        main()
