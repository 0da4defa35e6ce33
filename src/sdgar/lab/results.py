"""The finished runs of a comparison, so that an interrupted one can resume.

OUT/results.jsonl      one sealed line a run, with what must be the same for it to count
OUT/studies/*.jsonl    the searches before the runs
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from sdgar.errors import UsageError
from sdgar.lab.comparison import Measured
from sdgar.lab.study import MARK
from sdgar.storage import ledger
from sdgar.storage.ledger import Ledger, Line
from sdgar.storage.sealed import DamagedError, read_record
from sdgar.training.identity import Identity, as_json, require_same

FORMAT = "sdgar-result 1"
Which = tuple[str, int | None, int]
"""The system, the seed and the fold of a run, by which it is known."""
_RESULTS, _STUDIES = "results.jsonl", "studies"


class Results:
    """The finished runs of a comparison, in OUT/results.jsonl or, without OUT, in memory."""

    def __init__(self, out: Path | None, *, overwrite: bool) -> None:
        self.out = out
        self._overwrite = overwrite
        self._ledger: Ledger[Which] = Ledger(
            None if out is None else self._path,
            format=FORMAT,
            what="a list of results",
            key_of=self._which,
            empty=overwrite,
        )

    def __enter__(self) -> Self:
        """Lock the list, and read the runs that are finished."""
        if self.out is not None:
            require_ours(self.out)
        self._ledger.__enter__()
        if self.out is not None and self._overwrite:
            for study in (self.out / _STUDIES).glob("*.jsonl"):
                ledger.remove_lines(study, MARK)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Unlock the list."""
        self._ledger.__exit__(kind, error, tb)

    def require_same(self, which: Which, identity: Identity, *, free: Collection[str] = ()) -> None:
        """Raise if the run was finished before with other data or settings; ``free`` may differ."""
        line = self._ledger.find(which)
        if line is not None:
            before, now = dict(line["identity"]), as_json(identity)
            for name in free:
                before, now = before | {name: None}, now | {name: None}
            require_same(before, now, self._path)

    def find(self, which: Which, identity: Identity) -> Measured | None:
        """Return the run that was finished before, if it was."""
        self.require_same(which, identity)
        line = self._ledger.find(which)
        return None if line is None else read_record(self._path, Measured, line["run"])

    def add(self, run: Measured, identity: Identity) -> None:
        """Keep a finished run."""
        if self.out is not None:
            self._ledger.add({"identity": as_json(identity), "run": asdict(run)})

    def _which(self, line: Line) -> Which:
        """Return the run that a line describes."""
        if not isinstance(line.get("identity"), dict):
            raise DamagedError(self._path, "a line has no description of its run")
        run = read_record(self._path, Measured, line.get("run"))
        return run.system, run.seed, run.fold

    @property
    def kept(self) -> str:
        """What is kept if the comparison is interrupted, as a sentence."""
        if self.out is None:
            return "Nothing was kept; --out DIR keeps what is finished."
        return f"What is finished is kept in {self.out}; the same command resumes."

    def study_of(self, system: str) -> Path | None:
        """Return the file of a search; None if nothing is kept."""
        return None if self.out is None else self.out / _STUDIES / f"{system}.jsonl"

    @property
    def _path(self) -> Path:
        return (self.out or Path()) / _RESULTS


def require_ours(out: Path) -> None:
    """Raise if a folder holds other things, before any work is spent on it."""
    if out.is_dir() and any(out.iterdir()) and not (out / _RESULTS).exists():
        raise UsageError(
            f"{out} holds files that are not a comparison (no {_RESULTS}), so it is left as it "
            "is. Choose another --out.",
            code="out_foreign",
        )
