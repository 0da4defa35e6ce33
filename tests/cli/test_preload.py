"""The largest library of torch is loaded beside the first imports of a command."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from sdgar.cli import preload

_LOAD = """
import sys, threading
from sdgar.cli.preload import load_torch_ahead
load_torch_ahead()
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print("torch" in sys.modules, "libtorch_cpu" in open("/proc/self/maps").read())
import torch
print(float(torch.ones(3).sum()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is loaded is read from Linux's /proc")
def test_the_library_is_loaded_without_importing_torch_which_works_afterwards():
    ran = subprocess.run([sys.executable, "-c", _LOAD], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True", "3.0"]


@pytest.mark.parametrize("name", ["libtorch_cpu.so", "something_else.so"])
def test_a_library_that_cannot_be_loaded_is_left_to_torch(tmp_path, monkeypatch, name):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / name).write_bytes(b"no library")
    started = []

    class Now:
        def __init__(self, target, args, daemon):
            self.work = lambda: target(*args)

        def start(self):
            self.work()
            started.append(name)

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(preload, "_LIBRARY", {sys.platform: "libtorch_cpu.so"})
    monkeypatch.setattr(preload, "Thread", Now)
    origin = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(preload, "find_spec", lambda package: origin)
    preload.load_torch_ahead()
    assert started == ([name] if name == "libtorch_cpu.so" else [])
