"""Checkpoints: all a run needs to end as if it had never been interrupted.

    checkpoint-000012/         named by the epochs run so far, over all passes
        state.safetensors      engine.*: parameters, optimiser, generator; best.*: weights of the
                               best epoch; finished.PASS.*: what the passes before this one gave
        loop.json              whose run it is, the pass, its log, the seconds spent
        manifest.json          size and SHA-256 of both, and its own seal

Random numbers are addressed by epoch and row, so there is no state of a generator of random
numbers to keep; best epoch, patience and counters follow from the log. A checkpoint is written
whole or not at all, read back, and only then are older ones removed, all but one. A state with a
number that is not finite is never written.
"""

from __future__ import annotations

import errno
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any

import safetensors.numpy
import torch
from torch import Tensor

from sdgar.arguments import not_negative
from sdgar.contracts import Engine, Learned
from sdgar.errors import ArtifactError, NumericalError, ResourceError, StoppedError
from sdgar.settings import CHECKPOINT_SECONDS, of_today
from sdgar.storage import folders
from sdgar.training.fit import EpochRecord, Fitted, Progress

FORMAT = "sdgar-checkpoint"
FORMAT_VERSION = 1
_KEPT = 2
_STATE, _LOOP = "state.safetensors", "loop.json"
_UNSEALED = ("format", "files")
"""What a manifest could hold before there were seals."""

Identity = Mapping[str, Any]
"""What must be the same for a run to go on, by name: data, system, settings, version."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A pass that is over, with its model as named tensors."""

    model: dict[str, Tensor]
    best_epoch: int
    log: list[EpochRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A run between two epochs."""

    phase: str
    """The pass that is under way."""
    log: list[EpochRecord]
    """Its epochs."""
    best: dict[str, Tensor]
    """The model of its best epoch as named tensors; empty if there was none."""
    engine: str
    """Which engine the state is of."""
    state: dict[str, Tensor]
    finished: dict[str, Finished]
    """What the passes before this one gave."""
    seconds: float
    """Time the run has taken, over all restarts."""

    @property
    def epochs(self) -> int:
        """Epochs run over all passes."""
        return len(self.log) + sum(len(one.log) for one in self.finished.values())

    def sentence(self) -> str:
        """Where the run is, for people."""
        return f"epoch {len(self.log)} of pass {self.phase!r}"


class Checkpoints:
    """The checkpoints of one run, in a folder that the run has to itself."""

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        *,
        device: torch.device,
        every: float = CHECKPOINT_SECONDS,
        stop: Callable[[], Signals | None] = lambda: None,
        go_on: str = "",
    ) -> None:
        self._folder = folder
        self._identity = as_json(identity)
        self._device = device
        self._every = not_negative("checkpoint_every", every)
        self._stop = stop
        self._go_on = go_on
        self._left: Checkpoint | None = None
        self._written = time.perf_counter()
        self.started = self._written
        """When the run would have begun, had it never been interrupted."""
        self._finished: dict[str, Finished] = {}

    def resume(self) -> list[str]:
        """Take up the newest good checkpoint, and say which it is and what was wrong with others.

        A damaged checkpoint is removed once an older one has proved good; if none is good, all
        are left as they are.
        """
        damaged: dict[Path, str] = {}
        for folder in self._folders():
            try:
                found = read(folder, self._identity, self._device)
            except folders.DamagedError as error:
                damaged[folder] = error.found
                continue
            self._take(found)
            for other in (*damaged, *self._folder.glob(".checkpoint-*.tmp-*")):
                shutil.rmtree(other, ignore_errors=True)  # the latter were being written
            return [
                *(f"{what}; the checkpoint before it is used" for what in damaged.values()),
                f"going on after {found.sentence()}",
            ]
        if damaged:
            raise ArtifactError(
                f"no checkpoint in {self._folder} can be used: {'; '.join(damaged.values())}. "
                "Start over with --overwrite.",
                code="no_good_checkpoint",
            )
        return ["there is no checkpoint yet: starting with the first epoch"]

    def finish(self, phase: str, fitted: Fitted) -> None:
        """Keep what a pass gave."""
        self._finished[phase] = Finished(fitted.model.tensors(), fitted.best_epoch, fitted.log)

    def finished(self, phase: str, like: Callable[[], Learned]) -> Fitted | None:
        """What a pass gave that is over; ``like`` makes a model of its kind."""
        over = self._finished.get(phase)
        if over is None:
            return None
        return Fitted(self._model(like, over.model), over.best_epoch, over.log)

    def keeper(self, phase: str, like: Callable[[], Learned]) -> PassKeeper:
        """Who keeps one pass of the loop; ``like`` makes a model of its kind."""
        return PassKeeper(self, phase, like)

    def restore(self, phase: str, engine: Engine, like: Callable[[], Learned]) -> Progress:
        """Put the engine where the pass was left; a pass that had not begun starts afresh."""
        left, self._left = self._left, None
        if left is None or left.phase != phase:
            return Progress()
        require_same({"engine": left.engine}, {"engine": engine.name}, self._folder)
        try:
            _require_alike(left.state, engine.state())
            engine.load_state(left.state)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise self._foreign(error) from error
        return Progress(left.log, self._model(like, left.best) if left.best else None)

    def _model(self, like: Callable[[], Learned], named: dict[str, Tensor]) -> Learned:
        try:
            model = like()
            _require_alike(named, model.tensors())
            return model.with_tensors(named)
        except (RuntimeError, TypeError, ValueError) as error:
            raise self._foreign(error) from error

    def _foreign(self, error: Exception) -> ArtifactError:
        return ArtifactError(
            f"the checkpoint in {self._folder} does not fit this system: {error}. "
            "Start over with --overwrite.",
            code="foreign_checkpoint",
        )

    def offer(self, phase: str, progress: Progress, engine: Engine, *, last: bool) -> None:
        """Write a checkpoint if it is time, if the pass is over, or if the run must stop."""
        signal = self._stop()
        now = time.perf_counter()
        if not last and signal is None and now - self._written < self._every:
            return
        checkpoint = Checkpoint(
            phase=phase,
            log=progress.log,
            best={} if progress.best is None else progress.best.tensors(),
            engine=engine.name,
            state=engine.state(),
            finished=self._finished,
            seconds=now - self.started,
        )
        self.write(checkpoint)
        self._written = time.perf_counter()
        if signal is not None:
            raise StoppedError(
                f"stopped by {signal.name} after {checkpoint.sentence()}; nothing is lost. "
                f"Go on with: {self._go_on}",
                signal=signal,
            )

    def write(self, checkpoint: Checkpoint) -> Path:
        """Write, read back, and then remove all older ones but one."""
        target = self._folder / f"checkpoint-{checkpoint.epochs:06d}"
        contents = {
            _STATE: safetensors.numpy.save(_arrays(checkpoint)),
            _LOOP: json.dumps(_loop(checkpoint, self._identity)).encode(),
        }
        manifest = folders.sealed({"format": FORMAT, "files": folders.seals(contents)})
        try:
            with folders.whole(target, replace=True) as temporary:
                for name, data in contents.items():
                    folders.write(temporary / name, data)
                folders.write(temporary / folders.MANIFEST, json.dumps(manifest).encode())
            _verify(target)
            for old in self._folders()[_KEPT:]:
                folders.remove(old)
        except OSError as error:
            needed = sum(map(len, contents.values()))
            raise ResourceError(
                f"could not write {target}: [Errno {error.errno}] {error.strerror} ({needed:,} "
                "bytes are needed). Earlier checkpoints are as they were. Make room or mend the "
                f"disk, then go on with: {self._go_on}",
                code="checkpoint_failed",
            ) from error
        return target

    def _folders(self) -> list[Path]:
        """All checkpoints, the newest first."""
        found = [p for p in self._folder.glob("checkpoint-*") if is_checkpoint(p.name)]
        return sorted(found, key=lambda p: int(p.name.partition("-")[2]), reverse=True)

    def _take(self, found: Checkpoint) -> None:
        self._left = found
        self._finished = found.finished
        self.started = time.perf_counter() - found.seconds


@dataclass(frozen=True, slots=True)
class PassKeeper:
    """Keeps one pass of the loop; a ``training.fit.Keeper``."""

    checkpoints: Checkpoints
    phase: str
    like: Callable[[], Learned]

    def resume(self, engine: Engine) -> Progress:
        """Where the pass was left."""
        return self.checkpoints.restore(self.phase, engine, self.like)

    def keep(self, progress: Progress, engine: Engine, *, last: bool) -> None:
        """After every epoch."""
        self.checkpoints.offer(self.phase, progress, engine, last=last)


def is_checkpoint(name: str) -> bool:
    """Whether a folder of this name is a checkpoint, or one that is being written."""
    return re.fullmatch(r"checkpoint-[0-9]{6,12}|\.checkpoint-[0-9]+\.tmp-.*", name) is not None


def read(folder: Path, identity: Identity, device: torch.device) -> Checkpoint:
    """Read and verify one checkpoint, and refuse that of another run."""
    files = _files_of(folder)
    arrays = folders.read_tensors(folder / _STATE, files)
    text = folders.read_sealed(folder / _LOOP, files)
    try:
        loop = json.loads(text)
        _require_version(folder, loop)
        require_same(loop["identity"], identity, folder)
        tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        return Checkpoint(
            phase=_text(loop["phase"]),
            log=_log(folder / _LOOP, loop["log"]),
            best=_part("best.", tensors),
            engine=_text(loop["engine"]),
            state=_part("engine.", tensors),
            finished={
                phase: _finished(folder / _LOOP, over, _part(f"finished.{phase}.", tensors))
                for phase, over in loop["finished"].items()
            },
            seconds=_seconds(loop["seconds"]),
        )
    except (
        AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise folders.DamagedError(
            folder / _LOOP, f"it does not describe a run ({error})"
        ) from error


def require_same(recorded: Identity, now: Identity, where: Path) -> None:
    """Refuse to go on with other data, settings or code than a run began with, field by field."""
    recorded = of_today(recorded.get("system"), recorded)
    differ = [
        f"{name} was {recorded.get(name)!r}, is now {now.get(name)!r}"
        for name in sorted({*recorded, *now})
        if recorded.get(name) != now.get(name)
    ]
    if differ:
        raise ArtifactError(
            f"{where} is of a run that began differently: {'; '.join(differ)}. Bring back what it "
            "began with to go on, or start over with --overwrite.",
            code="mismatch",
        )


def as_json(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table as it will be read back, so that a tuple equals the list it becomes."""
    return dict(json.loads(json.dumps(table)))


def _require_alike(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse a state in which a tensor is missing, or is of another type or shape."""
    for name, like in wanted.items():
        if name not in found:
            raise ValueError(f"{name} is missing")
        said = f"{found[name].dtype} {tuple(found[name].shape)}"
        if said != (expected := f"{like.dtype} {tuple(like.shape)}"):
            raise ValueError(f"{name} is {said}, expected {expected}")


def _files_of(folder: Path) -> dict[str, Any]:
    """What the manifest of a checkpoint says of its files."""
    path = folder / folders.MANIFEST
    manifest = folders.read_table(path)
    folders.require_sealed(path, manifest, _UNSEALED)
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise folders.DamagedError(path, "it has no table 'files'")
    return files


def _verify(folder: Path) -> None:
    try:
        files = _files_of(folder)
        for name in (_STATE, _LOOP):
            folders.read_sealed(folder / name, files)
    except folders.DamagedError as error:
        raise OSError(errno.EIO, f"it reads back differently: {error.found}") from error


def _require_version(folder: Path, loop: Mapping[str, Any]) -> None:
    found = (loop.get("format"), loop.get("format_version"))
    if found != (FORMAT, FORMAT_VERSION):
        raise ArtifactError(
            f"{folder} has format {found[0]!r}, version {found[1]!r}; this sdgar reads {FORMAT!r}, "
            f"version {FORMAT_VERSION}. Go on with the sdgar that wrote it, or start over with "
            "--overwrite.",
            code="format_version",
        )


def _loop(checkpoint: Checkpoint, identity: Identity) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "identity": identity,
        "phase": checkpoint.phase,
        "engine": checkpoint.engine,
        "seconds": checkpoint.seconds,
        "log": [record.as_dict() for record in checkpoint.log],
        "finished": {
            phase: {
                "best_epoch": fitted.best_epoch,
                "log": [record.as_dict() for record in fitted.log],
            }
            for phase, fitted in checkpoint.finished.items()
        },
    }


def _log(path: Path, records: object) -> list[EpochRecord]:
    if not isinstance(records, list):
        raise TypeError(f"a log is a list, not {records!r}")
    log = [folders.read_record(path, EpochRecord, record) for record in records]
    if [record.epoch for record in log] != list(range(1, len(log) + 1)):
        raise ValueError("the epochs of a log do not follow each other")
    for record in log:
        for seconds in (record.train_seconds, record.refit_seconds, record.evaluate_seconds):
            _seconds(seconds)
        if record.best and record.metric is None:
            raise ValueError(f"epoch {record.epoch} is called the best, and was not measured")
        measured = {"loss": record.loss, "metric": record.metric, "effective": record.effective}
        for name, value in (measured | record.health).items():
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} of epoch {record.epoch} is {value}")
    return log


def _finished(path: Path, over: Mapping[str, Any], model: dict[str, Tensor]) -> Finished:
    """A pass that is over; how long the next one is hangs on its best epoch."""
    log = _log(path, over["log"])
    best_epoch = Progress(log).best_epoch or len(log)
    if over["best_epoch"] != best_epoch:
        raise ValueError(f"its best epoch is {best_epoch}, not {over['best_epoch']!r}")
    return Finished(model, best_epoch, log)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is not a number of seconds")
    return float(value)


def _arrays(checkpoint: Checkpoint) -> folders.Tensors:
    """Every tensor by name, each seen to be finite."""
    tensors = {f"engine.{name}": tensor for name, tensor in checkpoint.state.items()}
    kept = {f"finished.{phase}.": over.model for phase, over in checkpoint.finished.items()}
    for prefix, model in (kept | {"best.": checkpoint.best}).items():
        tensors |= {prefix + name: tensor for name, tensor in model.items()}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise NumericalError(
                f"{name.removeprefix('engine.')} holds a number that is not finite after "
                f"{checkpoint.sentence()}: the model diverged. Lower the learning rate or raise "
                "l2. This state was not written; checkpoints before it are as they were.",
                code="diverged",
            )
    # safetensors writes the memory as it lies, so a transposed view would come back scrambled.
    return {name: t.detach().cpu().contiguous().numpy() for name, t in tensors.items()}


def _part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
