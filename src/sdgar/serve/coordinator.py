"""How several worker processes change to a new model at the same moment, coordinated by the store.

    request   a client or a watched folder names a new model
    ready     every process has loaded and checked it, and still answers with the old model
    switch    once all live processes are ready, each switches at its next step
    refused   one process refuses the model, and none switches

Each process reports its state for the newest request at every step, so that none misses it. A
process without a recent report counts as dead: nobody waits for it.
"""

from __future__ import annotations

import os
import socket
import time

from sdgar.errors import SdgarError, UsageError
from sdgar.serve.snapshot import Snapshot
from sdgar.serve.store import Database, ModelRequest, ServerReport
from sdgar.serve.swap import ServedModels

LIVE_SECONDS = 10.0
"""A process counts as dead if its last report is older than this."""
WAIT_SECONDS = 120.0
"""The maximum time that a reload waits for all processes."""
_SEPARATOR = " "


class SwapCoordinator:
    """One of several processes that change models together."""

    def __init__(self, models: ServedModels, database: Database, group: str) -> None:
        self._models, self._database, self._group = models, database, group
        self._name = f"{group}{_SEPARATOR}{socket.gethostname()}-{os.getpid()}"
        self._staged: Snapshot | None = None
        request = database.latest_request(group)
        self._number = 0 if request is None else request.number
        """The number of the last request that this process has finished."""
        version = models.current.first.snapshot.version
        self._last_report = ("serving", _subject(version, self._number), "")

    def propose(self, variant: str, model: str | None = None) -> tuple[str, str, int]:
        """Request a model from all processes; return its name, version and request number."""
        name, version = self._models.locate(variant, model)
        request = self._database.latest_request(self._group)
        label = f"{variant}{_SEPARATOR}{name}"
        if request is not None and (request.name, request.version) == (label, version):
            return name, version, request.number
        return name, version, self._database.request_model(version, label, self._group)

    def reload(self, variant: str, model: str | None) -> Snapshot:
        """Request a model from all processes, and wait until all live processes serve it."""
        name, version, number = self.propose(variant, model)
        subject = _subject(version, number)
        finished = number <= self._number
        if self._refusals(subject) or (finished and not self._all_serve(subject)):
            # The model may be repaired since it was refused, or a new process may lack it.
            label = f"{variant}{_SEPARATOR}{name}"
            number = self._database.request_model(version, label, self._group)
            subject = _subject(version, number)
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            if refused := self._refusals(subject):
                raise UsageError(
                    f"the model {name} is refused, and the old model keeps answering: "
                    f"{refused[0].reason}",
                    code="refused_model",
                )
            if self._number > number:
                raise UsageError(
                    f"another model was requested while {name} was loaded. Try again.",
                    code="reloading",
                )
            if self._all_serve(subject):
                return self._models.current.by_name[variant].snapshot
            time.sleep(0.05)
        raise UsageError(
            f"not all processes were ready for {name} within {WAIT_SECONDS:g} s. Try again.",
            code="reloading",
        )

    def step(self) -> None:
        """Take the next step towards the requested model; called periodically by a thread."""
        request = self._database.latest_request(self._group)
        if request is None or request.number <= self._number:
            self._report(*self._last_report)
            return
        variant, _, folder = request.name.partition(_SEPARATOR)
        subject = _subject(request.version, request.number)
        if self._models.current.by_name[variant].snapshot.version == request.version:
            self._finish(request, "serving")
            return
        if self._staged is None or self._staged.version != request.version:
            try:
                self._staged = self._models.stage(variant, folder)
            except SdgarError as error:
                self._finish(request, "refused", str(error))
                return
        self._report("ready", subject)
        if refused := self._refusals(subject):
            self._models.refuse(variant, folder, refused[0].reason)
            self._finish(request, "refused", refused[0].reason)
        elif all(
            report.version == subject and report.state in ("ready", "serving")
            for report in self._live_reports()
        ):
            self._models.switch(variant, self._staged)
            self._finish(request, "serving")

    def _live_reports(self) -> list[ServerReport]:
        """Return the last reports of the live processes of this group."""
        return [
            report
            for report in self._database.reports()
            if report.server.startswith(self._group + _SEPARATOR)
            and time.time() - report.time < LIVE_SECONDS
        ]

    def _refusals(self, subject: str) -> list[ServerReport]:
        """Return the reports of the processes that refuse a model."""
        state = ("refused", subject)
        return [one for one in self._live_reports() if (one.state, one.version) == state]

    def _all_serve(self, subject: str) -> bool:
        """Return whether all live processes serve a model."""
        live = self._live_reports()
        served = [one for one in live if (one.state, one.version) == ("serving", subject)]
        return 0 < len(served) == len(live)

    def _report(self, state: str, subject: str, reason: str = "") -> None:
        self._last_report = (state, subject, reason)
        self._database.add_report(self._name, subject, state, reason)

    def _finish(self, request: ModelRequest, state: str, reason: str = "") -> None:
        """Report the result of a request for this process, and wait for the next request."""
        self._staged = None
        self._report(state, _subject(request.version, request.number), reason)
        self._number = request.number


def _subject(version: str, number: int) -> str:
    """Return the subject of a report: a model, and the number of the request for it."""
    return f"{version}{_SEPARATOR}{number}"
