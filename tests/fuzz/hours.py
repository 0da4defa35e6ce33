"""Runs of the fuzzer: children try cases, the parent watches them and keeps what they show.

A case can end the interpreter, never come to an end or ask for all memory there is. So cases are
tried in children with a bounded address space; a case lies on the disk and is announced before it
is tried, and when a child dies or falls silent, the announced case is the one that did it.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .target import Outcome, make, outcome_of

ROOT = Path(__file__).resolve().parents[2]
_CASES_A_CHILD = 3000
_KEPT_A_KIND = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """What a case of some KiB may take."""

    seconds: float = 20.0
    mib: int = 512
    """How much a case may add to the memory in use; to the address space, six times as much."""


@dataclass(slots=True)
class Found:
    """What a run has come to."""

    cases: Counter[str] = field(default_factory=Counter)
    """By target and outcome, such as ``parquet: refused``."""
    bugs: Counter[str] = field(default_factory=Counter)
    """By target and what happened."""


def child(targets: Sequence[str], seed: int, first: int, folder: Path, limits: Limits) -> None:
    """Try cases one after another, and say on stdout what is tried and what came of it."""
    case = folder / "case"
    os.fsync = lambda _: None  # thousands of times a minute, and no power is cut here
    for name in targets:  # what is imported and kept does not count
        case.mkdir()
        make(name, seed, first, case)
        shutil.rmtree(case)
    _bound_address_space(6 * limits.mib)
    for number in range(first, first + _CASES_A_CHILD):
        name = targets[number % len(targets)]
        case.mkdir()
        make(name, seed, number, case)
        _say("try", name, str(number), "")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome = outcome_of(name, case)
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10
        if more > limits.mib and not outcome.is_bug:
            outcome = Outcome(f"{more} MiB of memory for a small input")
        _say("end", name, str(number), json.dumps([outcome.kind, outcome.details]))
        if outcome.is_bug:
            sys.stdin.readline()  # the parent takes the files first
        shutil.rmtree(case)


def _say(*words: str) -> None:
    sys.stdout.write("\t".join(words) + "\n")
    sys.stdout.flush()


def _bound_address_space(mib: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not (pages := Path("/proc/self/statm")).exists():  # only Linux says what is in use
        return
    most = int(pages.read_text().split()[0]) * resource.getpagesize() + (mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run(
    targets: Sequence[str], seed: int, out: Path, limits: Limits, *, until: float, cases: int
) -> Found:
    """Try cases until a time (of ``time.monotonic``) or for a number of them."""
    out.mkdir(parents=True, exist_ok=True)
    found = Found()
    number = 0
    while number < cases and time.monotonic() < until:
        number = _one_child(targets, seed, number, out, limits, found, until, cases)
        (out / "so-far.json").write_text(json.dumps([found.cases, found.bugs], indent=2))
    return found


def _one_child(
    targets: Sequence[str],
    seed: int,
    number: int,
    out: Path,
    limits: Limits,
    found: Found,
    until: float,
    cases: int,
) -> int:
    """Watch a child until it ends; returns the number of the next case."""
    folder = out / "now"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    options = f"--child --seed {seed} --first {number} --mib {limits.mib}".split()
    command = [sys.executable, "-m", "tests.fuzz", *options, "--out", str(folder), *targets]
    path = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    few_threads = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "2"}
    with ExitStack() as stack, (folder / "stderr").open("w+b") as errors:
        process = stack.enter_context(subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT,
            bufsize=0,  # or select() would not see a line that was read together with another
            env=os.environ | few_threads | {"PYTHONPATH": path, "TMPDIR": str(folder)},
        ))  # fmt: skip
        stack.callback(process.kill)
        assert process.stdin is not None
        tried, at_work = "", True
        for word, name, at, reported in _said(process, limits.seconds):
            if word == "try":
                tried, at_work, number = name, True, int(at) + 1
                continue
            kind, details = json.loads(reported)
            outcome = Outcome(kind, details)
            _note(found, tried, seed, number - 1, outcome, out)
            at_work = False
            if outcome.is_bug:
                process.stdin.write(b"\n")
                process.stdin.flush()
            if number >= cases or time.monotonic() > until:
                return number
        ended = process.poll()
        if ended == 0:
            return number
        errors.seek(0)
        said = errors.read().decode(errors="replace")[-6000:]
        if not tried or ended == 1:
            raise RuntimeError(f"the fuzzer itself failed: {said}")
        how = "no answer in time" if ended is None else f"the interpreter died ({ended})"
        if not at_work:  # memory was spoilt before, by this case or by one before it
            how += " between two cases"
        _note(found, tried, seed, number - 1, Outcome(how, said), out)
    return number


def _said(process: subprocess.Popen[bytes], seconds: float) -> Iterator[list[str]]:
    """Lines of a child, until it ends or says nothing for too long; starting may take longer."""
    assert process.stdout is not None
    patience = max(seconds, 120.0)
    while select.select([process.stdout], [], [], patience)[0]:
        line = process.stdout.readline()
        if not line:
            process.wait()
            return
        words = line.decode().rstrip("\n").split("\t", 3)
        patience = seconds if words[0] == "try" else 120.0
        yield words


def _note(found: Found, name: str, seed: int, number: int, outcome: Outcome, out: Path) -> None:
    """Count an outcome; the first cases of each bug are kept as folders that show it again."""
    if not outcome.is_bug:
        found.cases[f"{name}: {outcome.kind}"] += 1
        return
    found.cases[f"{name}: bug"] += 1
    bug = f"{name}: {outcome.kind}"
    found.bugs[bug] += 1
    if found.bugs[bug] > _KEPT_A_KIND:
        return
    kept = out / f"{name.replace(' ', '-')}-{number}"
    shutil.rmtree(kept, ignore_errors=True)
    if (case := out / "now" / "case").exists():
        shutil.copytree(case, kept / "case")
    reported = {"target": name, "seed": seed, "number": number, "kind": outcome.kind}
    (kept / "finding.json").write_text(json.dumps(reported, indent=2))
    (kept / "details.txt").write_text(outcome.details)
    sys.stdout.write(f"{bug}\n  kept in {kept}; again: python -m tests.fuzz --again {kept}\n")
    sys.stdout.flush()
