"""The folder of a checkpoint: all that a run needs to resume.

    checkpoint-000012/         named by the epochs run so far, over all passes
        state.safetensors      engine.*: parameters, optimiser, generator; best.*: weights of the
                               best epoch; finished.PASS.*: the models of the passes before this one
        loop.json              the identity of the run, the pass, its log, the seconds spent
        manifest.json          size and SHA-256 of both, and its own seal

A state with a number that is not finite is never written.
"""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sdgar.errors import ArtifactError, NumericalError
from sdgar.models.saved import under
from sdgar.storage import arrays, folders, sealed
from sdgar.training.records import EpochRecord, Progress

Identity = Mapping[str, Any]
"""The entries that must be the same for a run to resume: data, system, settings, version."""
FORMAT = "sdgar-checkpoint"
"""The name of the format, which a checkpoint holds."""
FORMAT_VERSION = 1
"""The version of the format that is written and read."""
_STATE, _LOOP = "state.safetensors", "loop.json"


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a pass that is over."""

    model: dict[str, Tensor]
    """The model as named tensors."""
    best_epoch: int
    """The epoch whose weights the model has."""
    log: list[EpochRecord]
    """The records of its epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a run between two epochs."""

    phase: str
    """The name of the pass that is under way."""
    log: list[EpochRecord]
    """The records of the epochs of that pass."""
    best: dict[str, Tensor]
    """The model of the best epoch of that pass as named tensors; empty before the first one."""
    engine: str
    """The name of the engine whose state this is."""
    state: dict[str, Tensor]
    """The state of the engine as named tensors."""
    finished: dict[str, Finished]
    """The results of the passes before this one, by name."""
    seconds: float
    """The time that the run has taken, over all restarts."""

    @property
    def epochs(self) -> int:
        """The number of epochs that were run, over all passes."""
        return len(self.log) + sum(len(one.log) for one in self.finished.values())

    def sentence(self) -> str:
        """Return where the run is, for people."""
        last = self.log[-1].epoch if self.log else 0
        return f"epoch {last} of pass {self.phase!r}"


def is_checkpoint(name: str) -> bool:
    """Return whether a folder of this name is a checkpoint, or one that is being written."""
    return re.fullmatch(r"checkpoint-[0-9]{6,12}|\.checkpoint-[0-9]+\.tmp-.*", name) is not None


def save(target: Path, checkpoint: Checkpoint, identity: Identity) -> None:
    """Write the files and their manifest whole or not at all, and read them back.

    Whatever the disk refuses is an ``OSError``, and so are bytes that read back differently.
    """
    tensors = tensors_of(checkpoint)
    loop = json.dumps(_loop(checkpoint, identity)).encode()
    with folders.whole(target, replace=True) as temporary:
        files = {_STATE: arrays.write_tensors(temporary / _STATE, tensors)}
        files |= sealed.seals({_LOOP: loop})
        folders.write(temporary / _LOOP, loop)
        manifest = sealed.with_seal({"format": FORMAT, "files": files})
        folders.write(temporary / sealed.MANIFEST, json.dumps(manifest).encode())
    _verify(target)


def read(folder: Path, identity: Identity, device: torch.device) -> Checkpoint:
    """Read and verify one checkpoint; raise if it is damaged or of another run."""
    files = _files_of(folder)
    arrays = sealed.read_tensors(folder / _STATE, files)
    text = sealed.read_file(folder / _LOOP, files)
    try:
        loop = json.loads(text)
        _require_version(folder, loop)
        require_same(loop["identity"], identity, folder)
        tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        return Checkpoint(
            phase=_text(loop["phase"]),
            log=_log(folder / _LOOP, loop["log"]),
            best=under("best.", tensors),
            engine=_text(loop["engine"]),
            state=under("engine.", tensors),
            finished={
                phase: _finished(folder / _LOOP, over, under(f"finished.{phase}.", tensors))
                for phase, over in loop["finished"].items()
            },
            seconds=_seconds(loop["seconds"]),
        )
    except (
        AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise sealed.DamagedError(
            folder / _LOOP, f"it does not describe a run ({error})"
        ) from error


def _files_of(folder: Path) -> dict[str, Any]:
    """Return the size and digest of each file, from the manifest of a checkpoint."""
    path = folder / sealed.MANIFEST
    manifest = sealed.read_table(path)
    sealed.check_seal(path, manifest)
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise sealed.DamagedError(path, "it has no table 'files'")
    return files


def _verify(folder: Path) -> None:
    try:
        files = _files_of(folder)
        for name in (_STATE, _LOOP):
            sealed.check_file(folder / name, files)
    except sealed.DamagedError as error:
        raise OSError(errno.EIO, f"it reads back differently: {error.found}") from error


def _require_version(folder: Path, loop: Mapping[str, Any]) -> None:
    found = (loop.get("format"), loop.get("format_version"))
    if found != (FORMAT, FORMAT_VERSION):
        raise ArtifactError(
            f"{folder} has format {found[0]!r}, version {found[1]!r}; this sdgar reads {FORMAT!r}, "
            f"version {FORMAT_VERSION}. Resume with the sdgar that wrote it, or start over with "
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
    log = [sealed.read_record(path, EpochRecord, record) for record in records]
    first = log[0].epoch if log else 1
    if first < 1 or [record.epoch for record in log] != list(range(first, first + len(log))):
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
    """Return a pass that is over; raise if its best epoch does not follow from its log."""
    log = _log(path, over["log"])
    best_epoch = Progress(log).best_epoch or (log[-1].epoch if log else 0)
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


def tensors_of(checkpoint: Checkpoint) -> sealed.Tensors:
    """Return every tensor by name; raise if one is not finite."""
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


def require_same(recorded: Identity, now: Identity, where: Path) -> None:
    """Raise if data, settings or code differ from those at the start of a run; name each."""
    differ = [
        f"{name} was {recorded.get(name)!r}, is now {now.get(name)!r}"
        for name in sorted({*recorded, *now})
        if recorded.get(name) != now.get(name)
    ]
    if differ:
        raise ArtifactError(
            f"{where} is of a run that started differently: {'; '.join(differ)}. Restore what it "
            "started with to resume, or start over with --overwrite.",
            code="mismatch",
        )


def as_json(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table as it will be read back, so that a tuple equals the list it becomes."""
    return dict(json.loads(json.dumps(table)))
