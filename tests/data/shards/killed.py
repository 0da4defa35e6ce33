"""Shard a file in child processes that die at given moments, and then in one that does not.

    python killed.py FILE OUT MOMENT…

A moment is the number of a change of the file system (a file opened, renamed, linked or removed)
at which a child is killed. A moment of 0 lets a child live; a negative one limits the size of files
to so many bytes, as on a full disk. What became of each child is printed, and OUT is removed
where it has appeared.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

from sdgar.errors import SdgarError
from sdgar.scale.shards import runs
from sdgar.scale.shards.build import shard_files

EVENTS = ("open", "os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir")


def say(*words: object) -> None:
    """Print a line at once."""
    os.write(1, (json.dumps(words) + "\n").encode())


def digest(folder: str) -> str:
    """The SHA-256 of all files of a folder and their names."""
    found = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*")):
        found.update(str(path.relative_to(folder)).encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def child(file: str, out: str, moment: int) -> None:
    """Work until the moment has come, and say what came of it if it does not come."""
    changes = 0

    def count(event: str, args: object) -> None:
        nonlocal changes
        if event in EVENTS:
            changes += 1
            if changes == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    if moment < 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (-moment, -moment))
    try:
        shard_files([file], out, n_shards=3)
    except SdgarError as error:
        say(error.code, str(error))
    else:
        say("done", changes)


def main(file: str, out: str, *moments: str) -> None:
    """Start one child after the other; no thread runs here, so that forking is safe."""
    runs._BLOCK_BYTES, runs._RUN_ROW_BYTES = 2000, runs.RAM // 60
    for moment in map(int, moments):
        pid = os.fork()
        if pid == 0:
            child(file, out, moment)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            say("killed")
        if Path(out).exists():
            say("whole", digest(out), [path.name for path in Path(out).parent.glob(".*")])
            shutil.rmtree(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
