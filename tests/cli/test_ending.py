"""The process of a command ends at once, and yet does all that Python does at the end of one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

import sdgar

_COMMAND = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from sdgar.__main__ import command

def late():
    threading.main_thread().join()  # which Python marks as done when it begins to end
    print("a thread has ended")

pool = ThreadPoolExecutor(1)
pool.submit(int).result()  # its thread waits for more work
threading.Thread(target=late).start()
with open("own.py", "w") as file:
    file.write("import atexit; atexit.register(print, 'what was registered has run')")
sys.argv = ["sdgar", "--import", "own", *sys.argv[1:]]
command()
"""


@pytest.mark.parametrize(("words", "code"), [(["systems", "bpr"], 0), (["systems", "none"], 2)])
def test_threads_end_and_what_was_registered_runs(words, code, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == code
    assert ran.stdout.endswith("a thread has ended\nwhat was registered has run\n")
    assert ("BPR" in ran.stdout) == (code == 0)
    assert ("none" in ran.stderr) == (code == 2)


_INTERRUPTED = """
import os, signal, sys
left = int(sys.argv.pop(1))

def hook(event, args):
    global left
    if event == "import" and "sdgar.cli.main" in sys.modules:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)

from sdgar.__main__ import command
sys.addaudithook(hook)
sys.argv[0] = "sdgar"
command()
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run"
    sdgar.BPR(epochs=1, dim=2).fit(sdgar.synthetic("demo"), verbose=False).save(path)
    return path


@pytest.mark.parametrize("imports", [1, 5, 100, 700, 3000])
def test_ctrl_c_during_any_import_ends_the_process_at_once(imports, tmp_path):
    words = ["train", str(tmp_path / "nowhere.csv"), "--out", str(tmp_path / "o")]
    ran = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, str(imports), *words],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in ran.stderr
    if ran.returncode != 2:  # it had ended before so many imports
        assert (ran.returncode, ran.stderr) == (130, "interrupted\n")


_BEGUN = """
import sys

def hook(event, args):
    if event == "import" and args[0] == "sdgar.cli.main":
        print("begun", flush=True)

sys.addaudithook(hook)
from sdgar.__main__ import command
command()
"""


@pytest.mark.parametrize("seconds", [0.0, 0.2, 1.0, 2.0])
def test_ctrl_c_at_any_moment_ends_with_130(seconds, saved):
    process = subprocess.Popen(
        [sys.executable, "-c", _BEGUN, "recommend", str(saved), "--all"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == b"begun\n"  # until here Python itself starts
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert b"Traceback" not in said
    assert process.returncode in (0, 130)
