"""The folder RUN.partial holds a run in progress; it is removed when RUN is complete.

    run.json        the command, and what must be the same to resume it, sealed
    lock            held by the process that trains
    log.jsonl       one line an epoch
    checkpoint-*    see ``training.checkpoint_file``
    work/           what does not fit in RAM, if the run is on shards

RUN itself exists only once the model in it is whole. A run that fails before its first epoch
leaves nothing; one that ends later without a model leaves RUN.partial, to resume from. Where RUN is
a link, both folders lie where it leads. Files that others put into RUN.partial are left there.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import torch

from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.recommend import artifact
from sdgar.recommend.about import table
from sdgar.recommend.artifact import read_manifest
from sdgar.recommend.recommender import Recommender
from sdgar.runs.watching import Stop
from sdgar.show.printed import command
from sdgar.storage import files, folders, sealed
from sdgar.training.checkpoint_file import Identity, as_json, is_checkpoint, require_same
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.records import EpochRecord, OnPhase, Phase

FORMAT = "sdgar-run"
FORMAT_VERSION = 1
_RUN, _LOCK, _LOG = "run.json", "lock", "log.jsonl"
WORK = "work"
"""The name of the folder for what a run keeps in files because it does not fit in RAM."""
_RUN_ID = "run_id"


class Workspace:
    """The folder RUN.partial while one process trains in it."""

    def __init__(
        self,
        out: Path,
        identity: Identity,
        *,
        command: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        resume: bool = False,
        on_epoch: OnPhase | None = None,
    ) -> None:
        """Prepare a run; ``on_epoch`` is called after each line of its log."""
        self.folder = partial_of(out)
        self._out = out
        self._identity = as_json(identity)
        self._command = command
        self._overwrite = overwrite
        self._resume = resume
        self._on_epoch = on_epoch
        self._run_id = secrets.token_hex(8)
        self._lines: list[str] = []
        self._lock: IO[str]

    def __enter__(self) -> Self:
        files.require_locks()
        if self._resume:
            self._reopen()
        else:
            self._create()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with self._lock:
            if kind is None or not (self._lines or self._resume):
                _tidy(self.folder)

    def record(self, phase: Phase, epoch: EpochRecord) -> None:
        """Add a line to the log. The first starts a new log: a resumed run records all epochs."""
        line = json.dumps({"phase": phase, **epoch.as_dict()}) + "\n"
        with (
            _writing(self.folder),
            (self.folder / _LOG).open("a" if self._lines else "w") as file,
        ):
            file.write(line)
        self._lines.append(line)
        if self._on_epoch is not None:
            self._on_epoch(phase, epoch)

    def checkpoints(
        self, device: torch.device, every: float, stop: Stop, notify: Callable[[str], None]
    ) -> Checkpoints:
        """Return the checkpoints of this run; a resumed run takes up the newest good one."""
        resume = command("sdgar", "train", "--resume", self._out) if self._command else ""
        found = Checkpoints(
            self.folder,
            self._identity,
            device=device,
            every=every,
            stop=stop,
            resume_with=resume or "run(..., resume=True)",
        )
        for note in found.resume() if self._resume else ():
            notify(note)
        return found

    def commit(self, model: Recommender, about: dict[str, Any]) -> None:
        """Save the model, its report and the log as RUN."""
        model.about.update(about | {_RUN_ID: self._run_id})
        log = "".join(self._lines).encode()
        model.save(self._out, overwrite=self._overwrite, attachments={_LOG: log})

    def _create(self) -> None:
        """Make the folder appear with its description in it and its lock held."""
        require_free(self._out, overwrite=self._overwrite)
        described = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            _RUN_ID: self._run_id,
            "command": self._command,
            "identity": self._identity,
        }
        with _writing(self.folder), ExitStack() as stack:
            if self.folder.exists():  # an unfinished run that is to be replaced, or empty
                with _take_lock(self.folder):
                    folders.remove(self.folder)
            with folders.whole(self.folder, replace=False) as temporary:
                text = json.dumps(sealed.with_seal(described), indent=2)
                folders.write(temporary / _RUN, text.encode())
                self._lock = stack.enter_context(_take_lock(temporary))
            stack.pop_all()

    def _reopen(self) -> None:
        described = read_run(self._out)
        require_same(described["identity"], self._identity, self.folder)
        artifact.require_free(self._out, overwrite=self._overwrite)
        self._run_id = described[_RUN_ID]
        with _writing(self.folder):
            self._lock = _take_lock(self.folder)


def partial_of(out: Path) -> Path:
    """Return the folder of a run in progress."""
    place = folders.place_of(out)
    return folders.place_of(place.with_name(f"{place.name}.partial"))


def require_free(out: Path, *, overwrite: bool) -> None:
    """Raise, before work is spent, if a run could not be trained in this place or saved there.

    That is a name that no folder can have, a place that cannot be written to, and one where
    something is that is not to be replaced: a model, an unfinished run, or files of others.
    """
    artifact.require_free(out, overwrite=overwrite)
    folder = partial_of(out)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder, and an unfinished run would lie there. Choose another "
            "--out.",
            code="out_foreign",
        )
    if not any(folder.iterdir()):
        return
    if not (folder / _RUN).exists():
        raise UsageError(
            f"{folder} holds files that are not an unfinished run (no {_RUN}), so it is not "
            "replaced. Choose another --out.",
            code="out_foreign",
        )
    with _writing(folder), _take_lock(folder):
        if not overwrite:
            raise UsageError(
                f"{folder} holds an interrupted run. Resume it: "
                f"{command('sdgar', 'train', '--resume', out)}; or start over with --overwrite.",
                code="out_interrupted",
            )
        if names := _foreign(folder):
            raise folders.in_the_way(folder, names, "is not part of an unfinished run of sdgar")


def read_run(out: Path) -> dict[str, Any]:
    """Return the description of an interrupted run; raise if it is finished, or not there."""
    folder = partial_of(out)
    path = folder / _RUN
    if not (path.exists() or path.is_symlink()):
        if (out / sealed.MANIFEST).exists():
            raise _finished(out)
        raise UsageError(
            f"there is no interrupted run to resume at {folder}. Start one with: "
            f"{command('sdgar', 'train', 'FILES', '--out', out)}",
            code="nothing_to_resume",
        )
    described = sealed.read_table(path, finite=False)
    if (described.get("format"), described.get("format_version")) != (FORMAT, FORMAT_VERSION):
        made_by = table(described.get("identity")).get("sdgar version", "of another version")
        raise sealed.DamagedError(
            path,
            f"it is no run of format version {FORMAT_VERSION}, and sdgar {made_by} made it",
        )
    sealed.check_seal(path, described)
    match described:
        case {"run_id": str(run_id), "identity": dict(), "command": dict() | None}:
            pass
        case _:
            raise sealed.DamagedError(path, "it does not describe how the run began")
    if _saved_run_id(out) == run_id:
        # Killed after the model was saved, before this folder was removed.
        with _writing(folder), _take_lock(folder):
            _tidy(folder)
        raise _finished(out)
    return described


def _foreign(folder: Path) -> list[str]:
    """Return the files in the folder of a run that are not part of it."""
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name not in (_RUN, _LOCK, _LOG, WORK) and not is_checkpoint(entry.name)
    )


def _take_lock(folder: Path) -> IO[str]:
    """Lock the folder until the file is closed or the process ends, however it ends."""
    path = folder / _LOCK
    for name in (_LOCK, _LOG):  # a pipe would keep us waiting, a device would take what we write
        if (folder / name).exists() and not (folder / name).is_file():
            raise sealed.DamagedError(folder / name, "it is not a file")
    file = path.open("a+")
    try:
        files.lock(file)
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read()
        file.close()
        raise _busy(folder, holder) from error
    if not (path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())):
        file.close()
        raise _busy(folder, "")
    file.truncate(0)
    file.write(f"{os.getpid()}")
    file.flush()
    return file


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # another process was faster
            raise _busy(place, "") from error
        raise ResourceError(
            f"cannot write to {place}: [Errno {error.errno}] {error.strerror}.", code="unwritable"
        ) from error


def _tidy(folder: Path) -> None:
    """Remove what is not needed any more; an error of the disk does not matter then.

    Files of others stay where they are.
    """
    with suppress(OSError):
        kept = _foreign(folder)
        if not kept:
            folders.remove(folder)
            return
        for entry in sorted(folder.iterdir(), key=lambda one: one.name != _RUN):
            if entry.name not in kept:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _saved_run_id(out: Path) -> object:
    """Return which run made the model that is there; None if it is unknown."""
    try:
        return read_manifest(out)["about"].get(_RUN_ID)
    except ArtifactError:
        return None


def _busy(folder: Path, holder: str) -> UsageError:
    who = f" (process {holder})" if holder else ""
    return UsageError(
        f"another run{who} is training in {folder}. Wait for it, or choose another --out.",
        code="locked",
    )


def _finished(out: Path) -> UsageError:
    return UsageError(
        f"the run {out} is finished; there is nothing to resume. Use it: "
        f"{command('sdgar', 'recommend', out, '--all')}",
        code="finished",
    )


def unfinished(out: Path) -> dict[str, Any]:
    """Return how far an unfinished run has come, and the command that resumes it."""
    description = read_run(out)
    folder = partial_of(out)
    job = table(description["command"])
    log = _log(folder / "log.jsonl")
    kept = sorted(path.name for path in folder.glob("checkpoint-*"))
    last = log[-1] if log else {}
    measured = [line for line in log if isinstance(line.get("metric"), int | float)]
    return {
        "run": str(folder),
        "finished": False,
        "system": table(description["identity"]).get("system"),
        "settings": table(job.get("settings")),
        "files": job.get("files"),
        "created_by": f"sdgar {table(description['identity']).get('sdgar version')}",
        "phase": last.get("phase"),
        "epoch": last.get("epoch", 0),
        "loss": last.get("loss"),
        "best": max((line["metric"] for line in measured), default=None),
        "checkpoints": kept,
        "resume": command("sdgar", "train", "--resume", out) if job else None,
    }


def _log(path: Path) -> list[dict[str, Any]]:
    """Read the epochs so far; a line that is being written is not one yet."""
    lines = []
    if path.is_file():
        for text in path.read_text(errors="replace").splitlines():
            try:
                lines.append(table(json.loads(text)))
            except ValueError:
                break
    return lines
