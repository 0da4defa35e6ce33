"""Shards are whole or absent: after kill -9 or on a full disk, the same command makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sdgar.scale.shards.build import shard_files

from .killed import digest as digest_of
from .test_build import rows

KILLED = Path(__file__).with_name("killed.py")


def outcomes_of(folder: Path, *moments: int) -> list[list[object]]:
    """What became of each child."""
    files = str(folder / "events.csv"), str(folder / "out")
    command = [sys.executable, str(KILLED), *files, *map(str, moments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a file of events, the digest of its shards, and the changes that they take."""
    folder = tmp_path_factory.mktemp("killed")
    rows(300).write_csv(folder / "events.csv")
    shard_files([folder / "events.csv"], folder / "whole", n_shards=3)
    (_, changes), (_, digest, _) = outcomes_of(folder, 0)
    assert digest == digest_of(folder / "whole")
    assert changes > 50
    return folder, digest, changes


def require_whole_or_absent(found: list[list[object]], digest: str) -> None:
    """Every folder that has appeared is the whole one, and what was killed has left nothing."""
    assert found[-2][0] == "done"
    assert found[-1] == ["whole", digest, []]
    assert {line[1] for line in found if line[0] == "whole"} == {digest}


def test_shards_are_whole_or_absent_after_kill_9(work):
    folder, digest, changes = work
    moments = np.random.default_rng(0).integers(1, changes, 2).tolist()
    found = outcomes_of(folder, *moments, changes - 1, 0)
    assert found.count(["killed"]) == 3
    require_whole_or_absent(found, digest)


@pytest.mark.exhaustive
@pytest.mark.parametrize("share", range(10))
def test_shards_are_whole_or_absent_after_a_kill_at_any_moment(work, share):
    folder, digest, changes = work
    moments = range(1 + share, changes, 10)
    found = outcomes_of(folder, *moments, 0)
    assert found.count(["killed"]) == len(moments)
    require_whole_or_absent(found, digest)


def test_a_full_disk_is_reported_and_leaves_nothing(work):
    folder, digest, _ = work
    (code, said), *rest = outcomes_of(folder, -700, 0)
    assert code == "file_access"
    assert "out" in str(said)
    require_whole_or_absent(rest, digest)
