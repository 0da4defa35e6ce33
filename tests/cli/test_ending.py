"""The process of a command ends at once, and yet does all that Python does at the end of one."""

from __future__ import annotations

import subprocess
import sys

import pytest

_COMMAND = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from sdgar.cli.main import command

def late():
    threading.main_thread().join()  # which Python marks as done when it begins to end
    print("a thread has ended")

pool = ThreadPoolExecutor(1)
pool.submit(int).result()  # its thread waits for more work
threading.Thread(target=late).start()
atexit.register(lambda: print("what was registered has run"))
sys.argv = ["sdgar", *sys.argv[1:]]
command()
"""


@pytest.mark.parametrize(("words", "code"), [(["systems", "bpr"], 0), (["systems", "none"], 2)])
def test_threads_end_and_what_was_registered_runs(words, code):
    ran = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == code
    assert ran.stdout.endswith("a thread has ended\nwhat was registered has run\n")
    assert ("BPR" in ran.stdout) == (code == 0)
    assert ("none" in ran.stderr) == (code == 2)
