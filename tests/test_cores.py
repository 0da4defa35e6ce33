"""Threads are as many as the process may use, by affinity, quota and settings."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.machine import cores
from sdgar.machine.cores import Cores, quota


def machine(root: Path, own: str, place: str, files: dict[str, str]) -> Path:
    """Make a synthetic machine whose groups have these files."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"4:cpuset:/\n{own}\n")
    for name, content in files.items():
        path = root / f"{place}{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def v2(root: Path, files: dict[str, str], own: str = "/a/b/c") -> float | None:
    return quota(machine(root, f"0::{own}", "sys/fs/cgroup", files))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/a/b/c/cpu.max": "max 100000\n"}, None),
        ({"/a/b/c/cpu.max": "150000 100000\n"}, 1.5),
        ({"/a/b/c/cpu.max": "max 100000\n", "/a/cpu.max": "50000 100000\n"}, 0.5),
        ({"/a/b/c/cpu.max": "400000 100000\n", "/a/b/cpu.max": "50000 25000\n"}, 2.0),
        ({"/cpu.max": "300000 100000\n"}, 3.0),
        ({"/a/b/c/d/cpu.max": "100000 100000\n", "/e/cpu.max": "100000 100000\n"}, None),
        ({"/a/cpu.max": "what is this"}, None),
        ({"/a/cpu.max": "100000 0"}, None),
        ({"/a/cpu.max": ""}, None),
        ({}, None),
    ],
)
def test_the_tightest_quota_on_the_way_up_counts(files, expected, tmp_path):
    assert v2(tmp_path, files) == expected


@pytest.mark.parametrize("own", ["/docker/abc", "/", "/../other"])
def test_a_container_sees_its_own_group_at_the_top(own, tmp_path):
    assert v2(tmp_path, {"/cpu.max": "200000 100000"}, own) == 2.0


def test_without_groups_there_is_no_quota(tmp_path):
    assert quota(tmp_path) is None


@settings(max_examples=40)
@given(st.text(max_size=60), st.text(max_size=30))
def test_no_content_of_these_files_is_an_error(own, content):
    with tempfile.TemporaryDirectory() as folder:
        root = machine(Path(folder), "0::/", "sys/fs/cgroup", {"/cpu.max": ""})
        (root / "proc/self/cgroup").write_text(f"0::{own}", errors="replace")
        (root / "sys/fs/cgroup/cpu.max").write_text(content, errors="replace")
        found = quota(root)
        assert found is None or found > 0


@pytest.mark.parametrize(
    ("found", "threads", "why"),
    [
        (Cores(8, 8, None, 8), 8, "one for each core"),
        (Cores(8, 8, None, 16), 8, "one for each core"),
        (Cores(8, 3, None, 3), 3, "this process may run on 3 cores"),
        (Cores(8, 8, 1.5, 8), 2, "the quota of this container is 1.5 cores"),
        (Cores(64, 64, 0.5, 64), 1, "the quota of this container is 0.5 cores"),
        (Cores(8, 4, 2.0, 1), 1, "OMP_NUM_THREADS or torch sets this number"),
        (Cores(8, 4, 6.0, 8), 4, "this process may run on 4 cores"),
    ],
)
def test_the_reason_is_the_bound_that_decides(found, threads, why):
    assert (found.threads, found.why) == (threads, why)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_the_affinity_of_this_process_counts(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    monkeypatch.setattr(cores, "_own_quota", lambda: None)
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores.threads() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores.threads() == len(before)


def test_systems_that_know_no_affinity_use_all_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.found().affinity == 6


@pytest.mark.parametrize(
    ("said", "requested"), [("3", 3), ("2,4", 2), ("", 9), ("0", 9), ("many", 9), (None, 9)]
)
def test_before_torch_is_imported_its_variable_counts(monkeypatch, said, requested):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    if said is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert cores.found().requested == requested
    with cores.one_thread():
        assert "torch" not in sys.modules


@pytest.mark.usefixtures("plenty_of_cores")
def test_torch_is_held_back_for_a_while_only(set_threads):
    set_threads(4)
    with cores.torch_threads(2):
        assert (torch.get_num_threads(), cores.threads()) == (2, 2)
        with cores.torch_threads(3):
            assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), cores.torch_threads(1):
        _ = 1 / 0
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("plenty_of_cores")
def test_kernels_keep_their_threads_while_torch_stands_aside(set_threads):
    set_threads(4)
    with cores.torch_aside():
        assert (torch.get_num_threads(), cores.threads()) == (1, 4)
    assert (torch.get_num_threads(), cores.threads()) == (4, 4)


def test_torch_learns_of_the_quota_that_it_does_not_know(monkeypatch, set_threads):
    monkeypatch.setattr(cores, "_affinity", lambda: 64)
    monkeypatch.setattr(cores, "_own_quota", lambda: 1.5)
    set_threads(3)
    with cores.torch_threads():
        assert torch.get_num_threads() == 2
