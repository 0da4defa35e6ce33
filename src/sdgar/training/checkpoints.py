"""Checkpoints: when to write one, which to keep, and how a run resumes from one.

A resumed run ends as if it had never been interrupted. Random numbers are addressed
by epoch and row, so there is no state of a generator of random numbers to keep; best epoch,
patience and counters follow from the log. A checkpoint is written whole or not at all, read back,
and only then are older ones removed, all but one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdgar.arguments import not_negative
from sdgar.engines.protocol import Engine
from sdgar.errors import ArtifactError, ResourceError, StoppedError
from sdgar.settings import CHECKPOINT_SECONDS
from sdgar.storage import arrays, folders, sealed
from sdgar.training import checkpoint_file
from sdgar.training.checkpoint_file import Checkpoint, Finished, Identity, as_json, require_same
from sdgar.training.records import Fitted, Progress

if TYPE_CHECKING:
    from sdgar.contracts import Learned

_SHORT = 60.0
"""The seconds after which the end of a pass is worth a checkpoint, whatever time is between two."""
_KEPT = 2
"""How many checkpoints are kept."""


class Checkpoints:
    """The checkpoints of one run, in a folder that no other run uses."""

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        *,
        device: torch.device,
        every: float = CHECKPOINT_SECONDS,
        stop: Callable[[], Signals | None] = lambda: None,
        resume_with: str = "",
    ) -> None:
        self._folder = folder
        self._identity = as_json(identity)
        self._device = device
        self._every = not_negative("checkpoint_every", every)
        self._stop = stop
        self._resume_with = resume_with
        self._left: Checkpoint | None = None
        self._written = time.perf_counter()
        self.started = self._written
        """The time at which the run would have begun if it had never been interrupted."""
        self._finished: dict[str, Finished] = {}

    def resume(self) -> list[str]:
        """Load the newest good checkpoint; return notes on which it is and which are damaged.

        A damaged checkpoint is removed once an older one has proved good; if none is good, all
        are left as they are.
        """
        damaged: dict[Path, str] = {}
        for folder in self._folders():
            try:
                found = checkpoint_file.read(folder, self._identity, self._device)
            except sealed.DamagedError as error:
                damaged[folder] = error.found
                continue
            self._left, self._finished = found, found.finished
            self.started = time.perf_counter() - found.seconds
            for other in (*damaged, *self._folder.glob(".checkpoint-*.tmp-*")):
                shutil.rmtree(other, ignore_errors=True)  # the latter were being written
            return [
                *(f"{what}; the checkpoint before it is used" for what in damaged.values()),
                f"resuming after {found.sentence()}",
            ]
        if damaged:
            raise ArtifactError(
                f"no checkpoint in {self._folder} can be used: {'; '.join(damaged.values())}. "
                "Start over with --overwrite.",
                code="no_good_checkpoint",
            )
        return ["there is no checkpoint yet: starting with the first epoch"]

    def begin(self, phase: str, like: Callable[[], Learned]) -> Fitted | None:
        """Begin a pass; return its result if it is finished.

        ``like`` makes a model of the kind that the pass trains, whose tensors are then replaced.
        """
        self._phase, self._like = phase, like
        over = self._finished.get(phase)
        if over is None:
            return None
        return Fitted(self._model(over.model), over.best_epoch, over.log)

    def finish(self, fitted: Fitted) -> None:
        """Keep the result of the pass, to be part of every later checkpoint."""
        result = Finished(fitted.model.tensors(), fitted.best_epoch, fitted.log)
        self._finished[self._phase] = result

    def restore(self, engine: Engine) -> Progress:
        """Bring the engine to the state in which the pass was left, and return its progress.

        A pass that had not begun starts afresh.
        """
        left, self._left = self._left, None
        if left is None or left.phase != self._phase:
            return Progress()
        require_same({"engine": left.engine}, {"engine": engine.name}, self._folder)
        try:
            _require_alike(left.state, engine.state())
            engine.load_state(left.state)
            left = replace(left, state={})  # before the model takes its place
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise self._foreign(error) from error
        return Progress(left.log, self._model(left.best) if left.best else None)

    def _model(self, named: dict[str, Tensor]) -> Learned:
        try:
            model = self._like()
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

    def offer(self, progress: Progress, engine: Engine, *, last: bool) -> None:
        """Write a checkpoint if it is time, if the run must stop, or after a pass that was long."""
        signal = self._stop()
        now = time.perf_counter()
        wait = min(self._every, _SHORT) if last else self._every
        if signal is None and now - self._written < wait:
            return
        checkpoint = Checkpoint(
            phase=self._phase,
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
                f"Resume with: {self._resume_with}",
                signal=signal,
            )

    def write(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, read it back, and then remove all older ones but one."""
        target = self._folder / f"checkpoint-{checkpoint.epochs:06d}"
        try:
            checkpoint_file.save(target, checkpoint, self._identity)
            for old in self._folders()[_KEPT:]:
                folders.remove(old)
        except OSError as error:
            needed = arrays.size_of(checkpoint_file.tensors_of(checkpoint))
            raise ResourceError(
                f"could not write {target}: [Errno {error.errno}] {error.strerror} ({needed:,} "
                "bytes are needed). Earlier checkpoints are as they were. Free some space "
                f"or repair the disk, then resume with: {self._resume_with}",
                code="checkpoint_failed",
            ) from error
        return target

    def _folders(self) -> list[Path]:
        """Return all checkpoints, the newest first."""
        found = [
            p for p in self._folder.glob("checkpoint-*") if checkpoint_file.is_checkpoint(p.name)
        ]
        return sorted(found, key=lambda p: int(p.name.partition("-")[2]), reverse=True)


def _require_alike(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise if a tensor is missing, or is of another type or shape."""
    for name, like in wanted.items():
        if name not in found:
            raise ValueError(f"{name} is missing")
        said = f"{found[name].dtype} {tuple(found[name].shape)}"
        if said != (expected := f"{like.dtype} {tuple(like.shape)}"):
            raise ValueError(f"{name} is {said}, expected {expected}")
