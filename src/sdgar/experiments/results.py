"""The finished runs of a comparison, so that an interrupted one goes on where it was.

OUT/results.jsonl      one sealed line a run, with what must be the same for it to count
OUT/studies/*.jsonl    the searches before the runs
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from sdgar.errors import UsageError
from sdgar.experiments.standings import Measured
from sdgar.experiments.study import MARK
from sdgar.storage import lines
from sdgar.storage.folders import DamagedError, read_record, require_sealed, sealed
from sdgar.training.identity import Identity, as_json, require_same

FORMAT = "sdgar-result 1"
Which = tuple[str, int | None, int]
"""A run is known by its system, its seed and its fold."""
_RESULTS, _STUDIES = "results.jsonl", "studies"
_UNSEALED = ("format", "identity", "run")
"""What a line could hold before there were seals."""


class Results:
    """The finished runs of a comparison, in OUT/results.jsonl or, without OUT, in memory."""

    def __init__(self, out: Path | None, *, overwrite: bool) -> None:
        self.out = out
        self._overwrite = overwrite
        self._stack = ExitStack()
        self._file: IO[bytes] | None = None
        self._found: dict[Which, tuple[Measured, Identity]] = {}

    def __enter__(self) -> Self:
        if self.out is None:
            return self
        require_ours(self.out)
        with ExitStack() as opening:
            file = lines.locked(
                self._path, mark={"format": FORMAT}, what="a list of results", empty=self._overwrite
            )
            self._file = opening.enter_context(file)
            if self._overwrite:
                for study in (self.out / _STUDIES).glob("*.jsonl"):
                    lines.remove_ours(study, MARK)
            for line in lines.read(self._file, self._path):
                run, identity = self._described(line)
                self._found[run.system, run.seed, run.fold] = run, identity
            self._stack = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stack.close()

    def require_same(self, which: Which, identity: Identity, *, free: Collection[str] = ()) -> None:
        """Refuse a run that was finished before with other data or settings, but for free ones."""
        if which in self._found:
            before, now = dict(self._found[which][1]), as_json(identity)
            for name in free:
                before, now = before | {name: None}, now | {name: None}
            require_same(before, now, self._path)

    def find(self, which: Which, identity: Identity) -> Measured | None:
        """The run that was finished before, if it was."""
        self.require_same(which, identity)
        found = self._found.get(which)
        return None if found is None else found[0]

    def _described(self, line: dict[str, Any]) -> tuple[Measured, Identity]:
        """What a line says of a run, if it is as it was written."""
        if line.get("format") != FORMAT:
            raise DamagedError(self._path, f"a line is not of the format {FORMAT!r}")
        require_sealed(self._path, line, _UNSEALED)
        if not isinstance(line.get("identity"), dict):
            raise DamagedError(self._path, "a line does not say what its run was made with")
        return read_record(self._path, Measured, line.get("run")), line["identity"]

    def add(self, run: Measured, identity: Identity) -> None:
        """Keep a finished run."""
        if self._file is not None:
            line = {"format": FORMAT, "identity": as_json(identity), "run": asdict(run)}
            lines.append(self._file, self._path, sealed(line))

    @property
    def kept(self) -> str:
        """What an interruption leaves, for people."""
        if self.out is None:
            return "Nothing was kept; --out DIR keeps what is finished."
        return f"What is finished is kept in {self.out}; the same command goes on."

    def study_of(self, system: str) -> Path | None:
        """The file of a search."""
        return None if self.out is None else self.out / _STUDIES / f"{system}.jsonl"

    @property
    def _path(self) -> Path:
        return (self.out or Path()) / _RESULTS


def require_ours(out: Path) -> None:
    """Refuse a folder that holds other things, before any work is spent on it."""
    if out.is_dir() and any(out.iterdir()) and not (out / _RESULTS).exists():
        raise UsageError(
            f"{out} holds files that are not a comparison (no {_RESULTS}), so it is left as it "
            "is. Choose another --out.",
            code="out_foreign",
        )
