"""Seconds until SD-Softmax is as good as a value, by two versions of sdgar that take turns.

    python benchmarks/reach.py --before OTHER/src --packed carry [--rounds 3] [--json FILE]

Each version runs in a process of its own, which waits until it is its turn. It is first asked for
the least number of epochs, of those given, after which test NDCG@50 is not below the value; then
whole fits of so many epochs are timed, from the rows to the model. The later version is there three
times: SD-Softmax as it is by default, which chooses the weight of its memory on validation rows and
so trains twice; a small SD-Softmax (``SMALL``), which is told all that; and ``quick``, which is
what SD-Softmax starts from, with a memory. A ratio is the time of the other version over the time
of this one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import ROOT, from_npz, machine, options_of, write_report

VALUES = {"citeulike": 0.170, "gowalla": 0.210}
EPOCHS = {"before": (2, 4, 6, 8, 10, 15, 20, 30, 40), "now": (1, 2, 4, 8), "small": (1, 2, 4, 8)}
SMALL: dict[str, Any] = {"dim": 32, "states": 32, "pretrain": 4, "memory": 32.0}
"""Shorter vectors, fewer states, fewer steps of EM before training, a memory of a fixed weight."""


def contestant(path: str, which: str, value: str, *epochs: str) -> None:
    """Say which number of epochs is enough, and then answer each line with the seconds of a fit."""
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


class Process:
    """A version in a process of its own."""

    def __init__(self, source: Path, *words: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "contestant", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        self.epochs, self.reached = self._answer()
        self.seconds: list[float] = []

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a version ended before it answered")
        return json.loads(line)

    def turn(self) -> None:
        """Let it fit once."""
        assert self._process.stdin is not None
        self._process.stdin.write("fit\n")
        self._process.stdin.flush()
        self.seconds.append(self._answer())

    def end(self) -> None:
        """Let it go."""
        self._process.communicate()


def measured(before: Path, path: str, value: float, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Let all take turns, and give their median seconds and ratios."""
    now = ROOT / "src"
    sources = {"before": before, "now": now, "small": now, "quick": now}
    found = {
        name: Process(source, path, name, value, *((1,) if quick else EPOCHS.get(name, (0,))))
        for name, source in sources.items()
    }
    for _ in range(rounds):
        for process in found.values():
            process.turn()
    rows = {
        name: {
            "epochs": process.epochs,
            "ndcg@50": process.reached,
            "seconds": statistics.median(process.seconds),
            "ratio": statistics.median(
                first / own
                for first, own in zip(found["before"].seconds, process.seconds, strict=True)
            ),
        }
        for name, process in found.items()
    }
    for process in found.values():
        process.end()
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
