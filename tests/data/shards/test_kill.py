"""Shards are whole or absent: after kill -9 or on a full disk, the same command resumes."""

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
    assert changes > 100
    return folder, digest, changes


def test_the_same_command_goes_on_after_kill_9_with_the_same_bytes(work):
    folder, digest, changes = work
    moments = np.random.default_rng(0).integers(1, changes // 2, 2).tolist()
    found = outcomes_of(folder, *moments, 60, 0, changes - 5, 0)
    assert ["killed", False] in found
    assert [line for line in found if line[0] == "whole"] == [["whole", digest, False]] * 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("share", range(10))
def test_it_goes_on_after_a_kill_at_any_moment(work, share):
    folder, digest, changes = work
    moments = range(1 + share, changes, 10)
    found = outcomes_of(folder, *(at for moment in moments for at in (moment, 0)))
    assert [line for line in found if line[0] == "whole"] == [["whole", digest, False]] * len(
        moments
    )
    assert sum(line[0] == "killed" for line in found) == len(moments)


def test_a_full_disk_is_said_and_the_same_command_goes_on(work):
    folder, digest, _ = work
    (code, said), *_, last = outcomes_of(folder, -700, 0)
    assert code == "file_access"
    assert "out.partial" in str(said)
    assert last == ["whole", digest, False]
