"""Small trainings on shards: resumed ones, and processes that train together.

Processes are forked from one that has imported everything already.
"""

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGKILL, SIGTERM
from threading import Timer
from typing import Any

import pytest

import sdgar
from sdgar.data.synthetic import Shape
from sdgar.errors import ResourceError, SdgarError, StoppedError
from sdgar.scale.run import run_shards
from sdgar.scale.shards import Shards

_PROCESSES = get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    [
        "sdgar.scale.shared_engine", "sdgar.scale.run",
        "sdgar.kernels.numba.shared_epoch", "sdgar.systems.bpr", "sdgar.systems.sdsoftmax",
        "torch.distributed",
    ]
)  # fmt: skip
CHUNK = 240
"""Numbers that a chunk of a refit looks at, so few that there are chunks for several processes."""
SHAPE = Shape(users=90, items=40, interactions=900, concentration=0.15)
FILES = ("model.safetensors", "ids.safetensors", "history.safetensors")
SMALL: dict[str, dict[str, Any]] = {
    "SDSoftmax": {
        "dim": 4, "sampler__states": 3, "epochs": 4, "sampler__samples": 4,
        "sampler__refit_every": 2, "batch_size": 64,
    },
    "SDGAR": {
        "dim": 4, "sampler__states": 3, "epochs": 4, "early_stopping__every": 2, "batch_size": 64,
    },
    "BPR": {"dim": 4, "epochs": 4, "early_stopping__every": 2, "batch_size": 64},
}  # fmt: skip
OPTIONS = {"ram": 1 << 30, "together": 3, "test_users": 20}
"""The options of runs by several processes, and of runs that are compared with them."""
_LONG = 300
"""The seconds after which a test gives up."""


def model_of(system: str, **more: Any) -> Any:
    """Return a small estimator of a system."""
    return getattr(sdgar, system)(**SMALL[system] | more)


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the files of a model."""
    return {name: (folder / name).read_bytes() for name in FILES}


def run_whole_and_resumed(make: Callable[[], Any], shards: Shards, folder: Path, **how: Any) -> Any:
    """Train, and train again with a stop after ``epochs`` and a second start.

    The models are bit-identical. Return the result of the first.
    """
    epochs, calls = how.pop("epochs", 1), []

    def stop() -> Any:
        calls.append(True)
        return SIGTERM if len(calls) == epochs else None

    whole, stopped = folder / "whole", folder / "stopped"
    result = run_shards(make(), shards, out=whole, **how)
    with pytest.raises(StoppedError):
        run_shards(make(), shards, out=stopped, stop=stop, **how)
    run_shards(make(), shards, out=stopped, resume=True, **how)
    assert bytes_of(stopped) == bytes_of(whole)
    assert not stopped.with_name("stopped.partial").exists()
    return result


@dataclass(frozen=True)
class Task:
    """What each process is to do, and what happens to one of them."""

    shards: Path
    out: Path
    system: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that differ from ``SMALL``."""
    resume: bool = False
    here: int | None = None
    """How many processes are on one machine, one after the other; None if all are."""
    stop_after: int | None = None
    """The number of epochs after which the run is to stop."""
    killed_at: dict[int, int] = field(default_factory=dict)
    """The block of users at whose batches a process is killed, by its number."""
    later: float = 0.0
    """The seconds from the first batch of that block until it is killed."""
    broken: int | None = None
    """The process whose disk is full."""
    second: dict[str, Any] = field(default_factory=dict)
    """Different settings, shards and version of sdgar of the process with the number 1."""


def run_together(task: Task, count: int) -> dict[int, str]:
    """Run so many processes; return what each has said at its end, and nothing of one killed."""
    task.out.parent.mkdir(parents=True, exist_ok=True)
    place = task.out.with_name(f"{task.out.name}.{count}.meet")
    place.unlink(missing_ok=True)
    pipes = [_PROCESSES.Pipe(duplex=False) for _ in range(count)]
    processes = [
        _PROCESSES.Process(target=_work, args=(task, number, count, place, pipes[number][1]))
        for number in range(count)
    ]
    for process in processes:
        process.start()
    for _, end in pipes:
        end.close()
    said: dict[int, str] = {}
    try:
        for number, (process, (heard, _)) in enumerate(zip(processes, pipes, strict=True)):
            # It cannot end before a long text that it says is read.
            assert heard.poll(_LONG), f"worker {number} says nothing"
            with suppress(EOFError):  # it was killed before it could say anything
                said[number] = heard.recv()
            process.join(_LONG)
            assert not process.is_alive(), f"worker {number} does not end"
    finally:
        for process in processes:
            process.kill()
    place.unlink(missing_ok=True)
    return said


def _work(task: Task, number: int, count: int, place: Path, end: Connection) -> None:
    try:
        end.send(_train(task, number, count, place))
    except SdgarError as error:
        end.send(f"{error.code}: {error}")
    except BaseException:
        end.send(traceback.format_exc())


def _train(task: Task, number: int, count: int, place: Path) -> str:
    import torch
    from torch.distributed import FileStore

    from sdgar.samplers import sampled_sums
    from sdgar.scale import run, workers
    from sdgar.scale import shared_memory as common

    torch.set_num_threads(1)
    common._folders = lambda: [task.out.parent]
    sampled_sums._CHUNK = CHUNK
    machine = "one" if task.here is None else f"{number // task.here}"
    store = FileStore(str(place), count)
    together = workers.meet_at(store, number, count, machine=machine, seconds=60)
    _mishaps(task, number)
    own = task.second if number == 1 else {}
    model = model_of(task.system, **task.settings | own.get("settings", {}))
    shards = Shards.open(own.get("shards", task.shards))
    run.__version__ = own.get("version", run.__version__)
    calls = []

    def stop() -> Any:
        calls.append(True)
        return SIGTERM if len(calls) == task.stop_after else None

    run_shards(
        model, shards, out=task.out, workers=together, stop=stop, resume=task.resume,
        checkpoint_every=0.0, **OPTIONS,
    )  # fmt: skip
    workers.leave()
    return f"sent {together.sent}"


def _mishaps(task: Task, number: int) -> None:
    """Patch this process so that its mishaps happen."""
    from sdgar.scale.shared_engine import SharedCpuEngine
    from sdgar.scale.users import UsersOnDisk

    run: Callable[..., Any] = SharedCpuEngine.run_epoch
    blocks = []

    def run_or_die(self: SharedCpuEngine, epoch: int) -> Any:
        blocks.append(True)
        if len(blocks) == task.killed_at.get(number):
            if not task.later:
                os.kill(os.getpid(), SIGKILL)
            Timer(task.later, os.kill, (os.getpid(), SIGKILL)).start()
        return run(self, epoch)

    def full(*args: Any) -> None:
        raise ResourceError("the disk is full.", code="unwritable")

    SharedCpuEngine.run_epoch = run_or_die  # type: ignore[method-assign]
    if task.broken == number:
        UsersOnDisk.put = full  # type: ignore[method-assign]
