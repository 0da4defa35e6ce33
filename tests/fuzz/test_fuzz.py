"""A few minutes' worth of the fuzzer in a few seconds, and bugs that it must find."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sdgar.data import ids
from sdgar.data.readers import delimited, json_lines
from sdgar.storage import sealed

from .hours import ROOT, Limits, run
from .target import MODULES, PLANTED, Outcome, make, outcome_of

SEED = 20
CASES = dict.fromkeys(MODULES, 40) | {"checkpoints": 10}


def bugs(name: str, cases: int, folder: Path) -> dict[int, Outcome]:
    """What cases of a target show, by their number."""
    found = {}
    for number in range(cases):
        case = folder / str(number)
        case.mkdir()
        make(name, SEED, number, case)
        found[number] = outcome_of(name, case)
    assert {outcome.kind for outcome in found.values()} >= {"right", "refused"}  # or it is blind
    return {number: outcome for number, outcome in found.items() if outcome.is_bug}


@pytest.mark.parametrize("name", MODULES)
def test_no_case_ends_but_in_a_right_answer_or_in_words(name, tmp_path):
    found = bugs(name, CASES[name], tmp_path)
    assert not found, next(iter(found.values())).details


@pytest.mark.parametrize("name", MODULES)
def test_a_seed_makes_the_same_case_again(name, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        make(name, SEED, 3, tmp_path / folder)
    one, two = (sorted((tmp_path / folder).rglob("*")) for folder in ("one", "two"))
    files = [pair for pair in zip(one, two, strict=True) if pair[0].is_file()]
    assert files
    for here, there in files:
        assert here.name == there.name
        assert here.read_bytes() == there.read_bytes()


def stumbling(head: bytes, source: str) -> None:
    if b"\xff" in head:
        raise KeyError(255)


def spelled(values: list[object], what: str) -> np.ndarray:
    return np.array([*map(str, values), None], dtype=object)[:-1]


def without_last(block: bytes) -> list[bytes]:
    return block.splitlines()[:-1]


@pytest.mark.parametrize(
    ("name", "place", "what", "planted", "shows"),
    [
        ("delimited", delimited, "check_encoding", stumbling, "KeyError"),
        ("json lines", json_lines, "_lines", without_last, "lines were read"),
        ("manifests", sealed, "check_seal", lambda *_: None, "was not noticed"),
        ("ids", ids, "_from_objects", spelled, "taken for one"),
    ],
    ids=["a reader that stumbles", "a lost row", "a seal that is not looked at", "None as an id"],
)
def test_a_planted_bug_is_found(name, place, what, planted, shows, tmp_path, monkeypatch):
    monkeypatch.setattr(place, what, planted)
    found = bugs(name, 120, tmp_path)
    assert any(shows in outcome.details for outcome in found.values())


def test_crashes_hangs_and_floods_of_children_are_narrowed_down_and_the_run_goes_on(
    tmp_path, capsys
):
    until = time.monotonic() + 300
    found = run(PLANTED, SEED, tmp_path, Limits(1.0, 256), until=until, cases=40)
    assert found.cases.total() == 40
    said = " ".join(found.bugs)
    for part in ("a crash: the interpreter died", "a hang: no answer", "a flood: MemoryError"):
        assert part in said
    assert "KeyError" in said
    kept = [path.parent for path in tmp_path.glob("*/finding.json")]
    assert {(path / "case" / "word").read_bytes() for path in kept} == {b"bad"}
    assert f"--again {kept[0]}" in capsys.readouterr().out


def test_a_finding_can_be_tried_again_by_itself(tmp_path):
    until = time.monotonic() + 300
    run(("a wrong error",), SEED, tmp_path, Limits(), until=until, cases=10)
    finding = next(tmp_path.glob("*/finding.json")).parent
    command = [sys.executable, "-m", "tests.fuzz", "--again", str(finding)]
    path = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | path)
    assert done.returncode == 1
    assert "KeyError at planted.py" in done.stdout
