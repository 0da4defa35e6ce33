"""Fuzz the package for as long as wanted, from the root of the repository.

    python -m tests.fuzz --minutes 60 --seed 7 --out /tmp/findings    # all targets in turn
    python -m tests.fuzz --minutes 5 --out /tmp/findings parquet      # some of them
    python -m tests.fuzz --again /tmp/findings/parquet-1234           # one finding again

What is found is printed, and kept as a folder with the files that show it. The exit code is 1 if
anything was found.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from .hours import Limits, child, run
from .target import MODULES, PLANTED, outcome_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(MODULES))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0, help="that a case may take")
    parser.add_argument("--mib", type=int, default=512, help="of memory that a case may take")
    parser.add_argument("--out", type=Path, help="where findings are kept; a temporary folder")
    parser.add_argument("--again", type=Path, metavar="FINDING", help="try a kept finding again")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    targets = given.targets or list(MODULES)
    if unknown := set(targets) - {*MODULES, *PLANTED}:
        parser.error(f"there is no target {min(unknown)!r}; there are {', '.join(MODULES)}")
    limits = Limits(given.seconds, given.mib)
    if given.again:
        finding = json.loads((given.again / "finding.json").read_text())
        outcome = outcome_of(finding["target"], given.again / "case")
        sys.stdout.write(f"{outcome.kind}\n{outcome.details}")
        return int(outcome.is_bug)
    out = given.out or Path(tempfile.mkdtemp(prefix="sdgar-fuzz-"))
    if given.child:
        child(targets, given.seed, given.first, out, limits)
        return 0
    began = time.monotonic()
    until = began + 60 * given.minutes
    found = run(targets, given.seed, out, limits, until=until, cases=given.cases)
    minutes = (time.monotonic() - began) / 60
    sys.stdout.write(f"{found.cases.total():,} cases in {minutes:.1f} minutes, seed {given.seed}\n")
    for table in (found.cases, found.bugs):
        sys.stdout.writelines(f"{n:8,}  {what}\n" for what, n in sorted(table.items()))
    return int(bool(found.bugs))


if __name__ == "__main__":
    sys.exit(main())
